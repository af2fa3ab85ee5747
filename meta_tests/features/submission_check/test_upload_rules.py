"""What cannot be uploaded of a submitter's folder, and what should not be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meta_tests.features.submission_check.nameplates import MERGED
from mlperf_suite.features.submission_check.tree_files import read_yaml
from mlperf_suite.features.submission_check.upload_rules import (
    MAX_UPLOADED_BYTES,
    keys_in,
    read_upload,
)
from mlperf_suite.rules import judge


def broken(submission: Path) -> dict[str, str]:
    return {v.rule: v.found for v in judge(read_upload(submission)) if not v.passed}


def of_bytes(count: int) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(count)

    return write


@pytest.mark.parametrize(
    ("path", "make", "why"),
    [
        ("a.log", of_bytes(MAX_UPLOADED_BYTES), ""),
        ("a.log", of_bytes(MAX_UPLOADED_BYTES + 1), "has 52,428,801 bytes"),
        ("a.log", lambda path: path.symlink_to("/"), "is a link"),
        (".DS_Store", Path.touch, "is hidden"),
        (".git", Path.mkdir, "is hidden"),
        ("my notes.txt", Path.touch, "has a blank in its name"),
        ("__pycache__", Path.mkdir, "is compiled"),
        ("empty", Path.mkdir, "is empty"),
        ("a\x1b[2J b", Path.touch, "has a blank in its name"),
    ],
)
def test_what_a_repository_refuses_is_named(
    submission: Path, path: str, make: Callable[[Path], object], why: str
) -> None:
    assert broken(submission) == {}
    make(submission / "src" / path)
    shown = path.replace("\x1b", "?")
    assert broken(submission) == ({"submission_upload": f"src/{shown} {why}"} if why else {})


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("  api_key: sk-abc123", ["api_key"]),
        ("{endpoints: {'hf_token': 'hf_abc123'}}", ["hf_token"]),
        *[(f"  api_key: {value}", []) for value in ("null", "'***'", "${API_KEY}", "EMPTY", "")],
        ("max_new_tokens: 1024", []),
        ("# a key: none is given", []),
    ],
)
def test_a_key_in_the_clear_is_named_and_not_shown(
    submission: Path, line: str, names: list[str]
) -> None:
    assert list(keys_in(line)) == names
    (submission / "src/config.yaml").write_text(line)
    expected = {"submission_keys": f"{names[0]} in src/config.yaml"} if names else {}
    assert broken(submission) == expected


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("a: [1, {b: 2}]", {"a": [1, {"b": 2}]}),
        # What libyaml reads otherwise than PyYAML, or ends the process at.
        ("a:\tb", None),
        ("%YAML 1.3\n---\na: 1", {"a": 1}),
        *((opening * 100_000, None) for opening in ("[", "- ", "? ")),
        # Members that multiply in each line.
        (MERGED, None),
    ],
)
def test_yaml_is_read_as_pyyaml_reads_it(text: str, content: object, tmp_path: Path) -> None:
    (file := tmp_path / "a.yaml").write_text(text)
    assert read_yaml(file) == (content, "" if content else "a.yaml is not YAML")
