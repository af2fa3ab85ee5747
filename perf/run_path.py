"""Count what a session passes: the files and functions of the package that it calls, and imports.

    python -m perf.run_path -m offline
    python -m perf.run_path -p meta_tests.stand_in_plugin -m "offline and datacenter"
    python -m perf.run_path -m compliance --logs FOLDER

The arguments are pytest's. The session runs in this process; what an import executes (module and
class bodies, decorators) is not a call, and other processes are not seen. A profile hook in each
thread makes the session slower, so its figures say nothing.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from mlperf_suite import PACKAGE


class RunPath:
    """The code of the package that is called while the hook is on, in every thread."""

    def __init__(self) -> None:
        self.called: set[CodeType] = set()
        self._thread = threading.local()

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        """A profile function; see `sys.setprofile`."""
        code = frame.f_code
        if code.co_name == "<module>":
            imports = getattr(self._thread, "imports", 0)
            self._thread.imports = imports + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not getattr(self._thread, "imports", 0):
            self.called.add(code)

    def lines(self) -> list[str]:
        """The files of the package, the functions called in each, and the sums."""
        functions = Counter(
            path.relative_to(PACKAGE).as_posix()
            for code in self.called
            if (path := Path(code.co_filename)).is_relative_to(PACKAGE)
        )
        imported = sum(name.partition(".")[0] == PACKAGE.name for name in sys.modules)
        return [
            *(f"{count:5}  {name}" for name, count in sorted(functions.items())),
            f"{len(functions)} files and {functions.total()} functions called, "
            f"{imported} modules of {PACKAGE.name} imported",
        ]


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments and print what it passed. Returns pytest's exit status."""
    import pytest

    from mlperf_suite.plugin.own_folder import RESTARTED

    path = RunPath()
    with tempfile.TemporaryDirectory() as results:
        threading.setprofile(path.hook)
        sys.setprofile(path.hook)
        try:
            status = pytest.main([*RESTARTED, f"--results-dir={results}", "-q", *arguments])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    print("\n".join(path.lines()))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
