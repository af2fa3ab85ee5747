"""A process that has imported what sessions without an engine of their own import, and forks them.

    python -m meta_tests.warm_pytest SOCKET

Most of the processor time of such a session goes into importing, and much of the rest into reading
what is the same in each: who has plugins of pytest, the embedded model's tokenizer. What is forked
does as `python -m pytest` from then on. The process ends when its standard input does.
"""

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.feature import features

_STAND_INS = frozenset(f"meta_tests.{name}_plugin" for name in ("replay", "scoring", "stand_in"))
_MODULES = (
    # Before anything imports transformers.
    "meta_tests.without_torch",
    *("jinja2.ext", "matplotlib.backends.backend_svg", "pytest", "rich.progress", "rich.table"),
    *("nltk", "rouge_score.rouge_scorer", "lm_eval.evaluator", "lm_eval.tasks.manager"),
    *("transformers.convert_slow_tokenizer", "transformers.generation.configuration_utils"),
    *(f"transformers.models.{name}" for name in ("auto.tokenization_auto", "llama", "gpt2", "t5")),
    *("transformers.models.llama.configuration_llama", "transformers.image_utils"),
    *("mlperf_suite.session.executor", "mlperf_suite.session.timing.forecast"),
    *("mlperf_suite.loadgen.sut", "mlperf_suite.judging.judge"),
    *("mlperf_suite.reports.writing", "mlperf_suite.reports.closing", "meta_tests.stand_in"),
    # Plugins of pytest, but for own_folder, which looks at its process when it is imported.
    *("allure_pytest.plugin", "pytest_benchmark.plugin", "xdist.plugin", "xdist.looponfail"),
    *(
        f"mlperf_suite.plugin.{name}"
        for name in (
            *("baseline_gate", "cases", "ci_reports", "existing_logs", "lifecycle"),
            *("options", "outcomes", "progress", "selection", "terminal_report"),
            "workers",
        )
    ),
    *(f"fixtures.{name}" for name in ("changes", "dataset", "engine", "logs", "runs")),
    *(feature.plugin for feature in features() if feature.plugin),
)

_QUIET = ("-W", "ignore:Module already imported so cannot be rewritten")
"""Plugins of pytest that are imported before are none of the tests whose asserts it rewrites."""


def can_be_forked(arguments: Sequence[str]) -> bool:
    """Whether a session with these arguments has an engine that does without torch, a stand-in or
    one behind a URL, or none at all."""
    options = {argument.partition("=")[0] for argument in arguments}
    return not (_STAND_INS | {"--endpoint", "--logs"}).isdisjoint({*arguments, *options})


class WarmSession:
    """`pytest` under way in the suite's folder, in a process group of its own; asked and waited for
    as a subprocess.Popen. `output`: where it prints, in place of a file of its own."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: str = ""
    ) -> None:
        self.returncode: int | None = None
        self._output = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed when it has ended
        self._connection = socket.socket(socket.AF_UNIX)
        with _STARTS:
            self._connection.connect(_start())
        task = [list(arguments), dict(environment), output or self._output.name]
        self._connection.sendall(json.dumps(task).encode() + b"\n")
        self._answer = self._connection.makefile()
        self.pid = int(self._answer.readline())

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = int(self._answer.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            select.select([self._connection], [], [], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("pytest", timeout or 0)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for its end: what it printed. Raises subprocess.TimeoutExpired."""
        self.wait(timeout)
        text = Path(self._output.name).read_text()
        for opened in (self._output, self._answer, self._connection):
            opened.close()
        return text, None


def run_warm(
    arguments: Sequence[str], environment: Mapping[str, str], patience_s: float
) -> tuple[int, str]:
    """Run `pytest` in the suite's folder; its exit status and what it prints.

    Raises subprocess.TimeoutExpired if it has not ended after this time, when it is killed.
    """
    session = WarmSession(arguments, environment)
    try:
        output, _ = session.communicate(patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(session.pid, signal.SIGKILL)
        raise
    assert session.returncode is not None
    return session.returncode, output


def end_warm() -> None:
    for process in _PROCESSES:
        process.communicate()


@cache
def _start() -> str:
    folder = tempfile.mkdtemp()
    path = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, path],
        cwd=SUITE_FOLDER,
        # Read once, when the hub's client is imported: no session knows the user's.
        env=os.environ | {"HF_HOME": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _PROCESSES.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "it ended before it listened"
    return path


_STARTS = threading.Lock()
_PROCESSES: list[subprocess.Popen[bytes]] = []


def _serve(path: str) -> list[str]:
    """Fork for every task that comes; returns in the fork, with pytest's arguments."""
    arguments: list[str]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        forks: list[int] = []
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if listener not in ready:
                shutil.rmtree(Path(path).parent)
                for fork in forks:
                    os.waitpid(fork, 0)
                os._exit(0)
            connection, _ = listener.accept()
            forks.append(os.fork())
            if forks[-1] == 0:
                break
            connection.close()
    with connection:
        with connection.makefile() as asked:
            arguments, environment, output = json.loads(asked.readline())
        pid = os.fork()
        if pid:
            connection.sendall(b"%d\n" % pid)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection.sendall(b"%d\n" % status)
            os._exit(0)
    os.setsid()
    _become(environment, output)
    return arguments


def _become(environment: Mapping[str, str], output: str) -> None:
    """Take on the surroundings of a new process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    for path, flags, descriptors in (
        (os.devnull, os.O_RDONLY, (0,)),
        (output, os.O_WRONLY | os.O_APPEND, (1, 2)),
    ):
        opened = os.open(path, flags)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)


def _read_what_sessions_read() -> None:
    """What each session would read anew, and find the same."""
    from mlperf_suite.assets import embedded_model_dir
    from mlperf_suite.benchmarks.prompts import load_tokenizer
    from mlperf_suite.scorers.rouge import score_rouge
    from mlperf_suite.session import inputs

    score_rouge(["A sentence."], ["A sentence."])
    embedded = str(embedded_model_dir())
    tokenizer = load_tokenizer(embedded)

    def load(model: str, token: str | None = None) -> Any:
        return tokenizer if model == embedded else load_tokenizer(model, token)

    vars(inputs)["load_tokenizer"] = load
    # pytest asks every package that is installed for plugins, twice.
    found = [
        package
        for package in metadata.distributions()
        if any(point.group == "pytest11" for point in package.entry_points)
    ]
    vars(metadata)["distributions"] = lambda **_: iter(found)


def _run_pytest() -> None:
    """`python -m pytest`, to the end of its process, but that what was imported is not taken apart
    piece by piece: each would be copied from the warm process before."""
    status: object = None
    try:
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status) if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    for name in _MODULES:
        import_module(name)
    _read_what_sessions_read()
    gc.freeze()
    sys.argv[1:] = [*_serve(sys.argv[1]), *_QUIET]
    _run_pytest()
