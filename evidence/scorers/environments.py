"""Environments with the packages that others pin, and two scorers' figures side by side."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mlperf_suite import SUITE_FOLDER

_TORCH_ASKS = ("filelock", "fsspec", "jinja2", "networkx", "sympy", "typing_extensions")
PLACE = SUITE_FOLDER / ".evidence" / "scorers"
_OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def fresh_folder(name: str) -> Path:
    """An empty folder for one script's data."""
    folder = PLACE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def code_at(checkout: Path, commit: str, name: str, *paths: str) -> Path:
    """A folder of this name with the files of a commit or tag. Raises SystemExit where the checkout
    has none."""
    folder = fresh_folder(name)
    archive = ["git", "-C", str(checkout), "archive", commit, *paths]
    found = subprocess.run(archive, capture_output=True, check=False)
    if found.returncode:
        raise SystemExit(f"{checkout} has no {commit}: git fetch origin {commit}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=found.stdout, check=True)
    return folder


def run_offline(
    command: Sequence[str], folder: Path, script: object, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, where it finds nothing on the hub. `script`: its name, for the one
    line of an error. Raises SystemExit if it fails."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    surroundings = {**os.environ, **offline, **variables}
    done = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script}: {done.stderr.strip()[-1500:]}")
    return done


@dataclass(frozen=True, slots=True)
class Options:
    """What the command names: tokenizers by benchmark, and code that cannot be downloaded here."""

    tokenizers: Mapping[str, Path]
    metric: Path | None = None
    mxeval: Path | None = None
    endpoints: Path | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages that a script needs: pinned ones with their versions, others as the index has them.

    `wants_python`: the version that the reference's image has; without a `python<version>` on the
    PATH, the suite's own. `alone`: packages that come without what they ask for. `links_torch`:
    whether torch is needed, which only computes with a model: it is the suite's own, where the
    version of Python is.
    """

    name: str
    pins: Mapping[str, str]
    more: Sequence[str] = ()
    wants_python: str = _OWN_PYTHON
    alone: Sequence[str] = ()
    links_torch: bool = False

    @property
    def python(self) -> Path:
        """Its Python; the environment is made on the first call, and again for other packages."""
        folder = PLACE / self.name
        python, made = folder / "bin" / "python", folder / ".made"
        wanted = [f"{name}=={of}" for name, of in self.pins.items()]
        wanted += _TORCH_ASKS if self.links_torch else ()
        as_asked = "\n".join([self.wants_python, *wanted, *self.more, *self.alone])
        if made.exists() and made.read_text() == as_asked:
            return python
        shutil.rmtree(folder, ignore_errors=True)
        base = sys.executable
        if not self.links_torch and self.wants_python != _OWN_PYTHON:
            base = shutil.which(f"python{self.wants_python}") or base
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        if self.links_torch:
            _link_torch(folder)
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
        subprocess.run([*install, *wanted, *self.more], check=True)
        if self.alone:
            subprocess.run([*install, "--no-deps", *self.alone], check=True)
        made.write_text(as_asked)
        return python

    @property
    def packages(self) -> str:
        """Its Python and packages with their versions: what is pinned, then what is not."""
        ask = [str(self.python), "-m", "pip", "--disable-pip-version-check", "list"]
        listed = subprocess.check_output([*ask, "--format", "json"], text=True)
        has = {_as_one(row["name"]): row["version"] for row in json.loads(listed)}
        version = [*ask[:1], "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        python = f"Python {subprocess.check_output(version, text=True).strip()}"
        pinned = [f"{name} {of}" for name, of in self.pins.items()]
        names = map(_as_one, (*self.alone, *self.more))
        free = [f"{name} {has[name]}" for name in names]
        return ", ".join([python, *pinned]) + (f"; unpinned: {', '.join(free)}" if free else "")


def _as_one(name: str) -> str:
    return re.split(r"[\[<]", name.lower().replace("_", "-"))[0]


def _link_torch(folder: Path) -> None:
    """The suite's own torch, which pip then need not install."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed here")
    packages = Path(spec.origin).parents[1]
    (into,) = (folder / "lib").glob("python*/site-packages")
    for pattern in ("torch", "torchgen", "torch-*.dist-info"):
        for found in packages.glob(pattern):
            (into / found.name).symlink_to(found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides' figures of one log, by name; and what a benchmark's script is."""

    benchmark: str
    path: str
    packages: str
    answers: int
    official: Mapping[str, float]
    own: Mapping[str, float]

    @property
    def different(self) -> list[str]:
        """The figures that differ, with both values."""
        return list(_different(self.official, self.own))

    @property
    def row(self) -> list[str]:
        """Its row of the page."""
        figures = ", ".join(f"{name} {value:.10g}" for name, value in self.official.items())
        cells = [self.benchmark, f"`{self.path}`", self.packages, f"{self.answers:,}"]
        return [*cells, figures, "; ".join(self.different) or "none"]


def _different(official: Mapping[str, float], own: Mapping[str, float]) -> Iterator[str]:
    for name, value in official.items():
        if value != own.get(name):
            yield f"{name}: {value} and {own.get(name)}"
