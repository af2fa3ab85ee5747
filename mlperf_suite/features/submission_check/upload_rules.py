"""The rules of a submitter's whole folder: what cannot be uploaded to a repository, or is lost.

Sources: repository_checks.sh of MLCommons' tools/submission (sizes, links, names), and the checks
of folders in submission_checker_old.py beside it (__pycache__, empty ones).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.judging.reading import read_json, read_text
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, in_words, verdict
from mlperf_suite.secrets import is_secret
from mlperf_suite.untrusted_files import printable

MODEL_MAPPING = "model_mapping.json"
MAX_UPLOADED_BYTES = 50 * 2**20
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class UploadFacts(Facts):
    """A submitter's folder in a division. `refused`: paths in it that a repository does not take,
    each with the reason. `keys`: where a key stands in the clear in a configuration of the official
    client, without the key. `mapping_problem`: why model_mapping.json cannot be read, or ""."""

    refused: tuple[str, ...]
    keys: tuple[str, ...]
    mapping_problem: str

    @property
    def subject(self) -> Subject:
        return "submission"


def read_upload(submission: Path) -> UploadFacts:
    """What is to be uploaded of a submitter's folder."""
    refused, keys = [], []
    for path, reason in _files(submission):
        words = printable(str(path.relative_to(submission)))
        if reason:
            refused.append(f"{words} {reason}")
        else:
            keys += [f"{name} in {words}" for name in keys_in(read_text(path) or "")]
    mapping = submission / MODEL_MAPPING
    is_read = submission.parent.name == "open" and mapping.exists()
    problem = read_json(mapping).problem if is_read else ""
    return UploadFacts(tuple(sorted(refused)), tuple(sorted(keys)), problem)


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each configuration of the official client below a folder, with "", and each file and folder
    that is refused, with the reason.

    What is in links and in refused folders is left out.
    """
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        if not entries:
            yield Path(folder), "is empty"
        for entry in entries:
            reason = _why_refused(entry)
            if entry.is_dir(follow_symlinks=False) and not reason:
                waiting.append(entry.path)
            elif reason or entry.name in ("config.yaml", "config.yml"):
                yield Path(entry.path), reason


def _why_refused(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "is a link"
    if entry.name.startswith("."):
        return "is hidden"
    if " " in entry.name:
        return "has a blank in its name"
    if entry.is_dir():
        return "is compiled" if entry.name.endswith("__pycache__") else ""
    size = entry.stat().st_size
    return f"has {size:,} bytes" if size > MAX_UPLOADED_BYTES else ""


_SETTING = re.compile(r"""\b([A-Za-z][\w-]{0,63})["']?[ ]{0,8}:[ ]{1,8}["']?([^\s"',{}\]]+)""")
_NO_KEY = re.compile(r"null|~|true|false|\d+|\*+|\$.*|EMPTY|none", re.IGNORECASE)
"""What stands for no key: YAML's nothing, numbers, what was blotted out, names of variables, and
what servers that ask for no key are sent."""


def keys_in(config: str) -> Iterator[str]:
    """The names of settings in a text of YAML whose value is a key, a token or a password."""
    for name, value in _SETTING.findall(config):
        if is_secret(name, value) and not _NO_KEY.fullmatch(value):
            yield name


@rule(
    "submission",
    source="repository_checks.sh and submission_checker_old.py of tools/submission",
    fix="Remove or rename what is named; put files in place of links.",
)
def upload(submission: UploadFacts) -> Verdict:
    """A submitter's folder has no file above 50 MiB, no link, no hidden name, no blank in a name,
    no __pycache__ and no empty folder: the upload to a repository refuses or loses them."""
    return verdict(
        not submission.refused, _named(submission.refused) or "nothing refused", "nothing refused"
    )


@rule(
    "submission",
    required="no key",
    official=False,
    source="MLCommons publishes every file of a submission",
    fix="Replace the value by *** before the upload, and withdraw the key if it was published.",
)
def keys(submission: UploadFacts) -> Verdict:
    """No configuration of the official client holds a key, a token or a password."""
    return verdict(not submission.keys, _named(submission.keys) or "no key")


@rule(
    "submission",
    required="a JSON object",
    source="submission checker, loader.py reads it in the open division",
    fix=f"Correct or remove {MODEL_MAPPING}.",
)
def model_mapping(submission: UploadFacts) -> Verdict:
    """An open submission's model_mapping.json, if there is one, can be read."""
    return verdict(not submission.mapping_problem, submission.mapping_problem or "as required")


def _named(faults: tuple[str, ...]) -> str:
    more = len(faults) - _MAX_NAMED
    return in_words("; ".join(faults[:_MAX_NAMED]) + f" and {more} more" * (more > 0))
