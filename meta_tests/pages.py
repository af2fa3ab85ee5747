"""The repository's pages for readers, and what they set as code."""

import re
from pathlib import Path
from typing import Any

from meta_tests.suite_runs import ROOT

ENGLISH = ROOT / "README.md"
CHANGES = ROOT / "docs" / "CHANGELOG.md"
GUIDES = [ENGLISH, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "perf").glob("*.md"))]
IDS: dict[str, Any] = {
    "ids": lambda path: str(path.relative_to(ROOT)) if isinstance(path, Path) else path
}
OURS = r"(?:\w+=\S+ )*(?:mlperf-suite|(?:python -m )?pytest|make|\.venv/bin/\S+) "


def commands(guide: Path) -> list[str]:
    """The commands of a guide's blocks, each on one line and without its comment: every line of a
    block of bash, and of others the lines that begin with a program of the suite."""
    lines = []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", guide.read_text(), re.M | re.S):
        whole = text.replace("\\\n", " ").splitlines()
        lines += [line for line in whole if language == "bash" or re.match(OURS, line)]
    return [" ".join(re.sub(r"\s+#.*", "", line).split()) for line in lines if line.strip()]


def spans(guide: Path) -> list[str]:
    """What a guide sets as code within its sentences and tables."""
    text = re.sub(r"```.*?```", "", guide.read_text(), flags=re.DOTALL)
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", text)]


def is_there(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
