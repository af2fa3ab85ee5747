"""Let a virtual environment see this interpreter's packages, and keep pip from replacing any.

    python scripts/present_packages.py .venv

Writes present.txt into it, pip's constraints: each package with its version. An interpreter of a
virtual environment is not what `venv --system-site-packages` shows, so its packages are added by a
.pth file. Only the standard library is available.
"""

import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path


def main(environment: Path) -> None:
    versions = {d.metadata["Name"]: d.version for d in reversed([*distributions()])}
    lines = [f"{name}=={version}\n" for name, version in versions.items() if name and version]
    (environment / "present.txt").write_text("".join(sorted(lines)), encoding="utf-8")
    if sys.prefix != sys.base_prefix:
        folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        text = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in sorted(folders))
        for packages in environment.glob("lib/python*/site-packages"):
            (packages / "_present.pth").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
