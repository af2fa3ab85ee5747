"""Every command on a page for readers is one that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from meta_tests.pages import CHANGES, GUIDES, IDS, OURS, commands, is_there, spans, targets
from meta_tests.suite_runs import ROOT
from mlperf_suite.commands import COMMANDS
from mlperf_suite.feature import features
from mlperf_suite.option_specs import OptionSpec
from mlperf_suite.plugin.options import rewrite
from mlperf_suite.settings import OPTIONS, resolve_settings

OF_PLUGINS = {"--junitxml", "--alluredir", "--dist", "--benchmark-autosave", "--benchmark-compare"}


WITH_A_VALUE = {"-m", "-k", "-n", "-c", "-p", "--dist", "--tune"}


OF_THE_SYSTEM = {
    *("export", "set", "cd", "mkdir", "cp", "mv", "printf", "tar", "git", "curl", "jq"),
    *("nvidia-smi", "docker", "podman", "buildah", "kubectl", "litellm", "pip", "uvx"),
    *("vllm", "trtllm-serve", "llama-server"),
    *(".venv/bin/ray", "power_client"),  # of make ray, of mlcommons/power-dev
}
"""Programs that a page may call and that are not ours to check."""


IN_PLACE = {
    **{"FOLDER": str(ROOT), "/models/mine": str(ROOT), "my_tests": "tests"},
    **{"X": "2", "NAME": "name", "URL": "http://h:1"},
}
"""What a test puts where a page has a word for what the reader fills in."""


PYTEST = (
    r"(?:\w+=\S+ )*"
    r"(?:(?:\.venv/bin/|\.venv/bin/python -m )?pytest\b|mlperf-suite(?= -(?!-help)))(.*)"
)


def pytest_commands() -> list[tuple[Path, str]]:
    """Every command of pytest on a page of docs, in a block or in a sentence."""
    rows = []
    for guide in GUIDES:
        whole = [s for s in spans(guide) if re.match(r"(\.venv/bin/)?pytest .*-", s)]
        for line in [*commands(guide), *whole]:
            match = re.match(PYTEST, line)
            if match and "OPTIONS" not in line:
                # A page names a benchmark X where any will do.
                rows.append((guide, match[1].replace("--benchmark X", "--benchmark llama3.1-8b")))
    return sorted(set(rows), key=str)


@pytest.mark.parametrize(("guide", "arguments"), pytest_commands(), **IDS)
def test_a_command_of_pytest_has_options_values_markers_and_tests_that_there_are(
    guide: Path, arguments: str
) -> None:
    specs: dict[str, OptionSpec] = {f: s for s in OPTIONS for f in (s.flag, *s.legacy_flags)}
    values: dict[str, Any] = {}
    # The shell would have put a file's words in the place of its variables.
    words = rewrite(shlex.split(arguments)).arguments
    while words:
        flag, equals, value = words.pop(0).partition("=")
        if not flag.startswith("-"):
            assert (ROOT / flag.partition("::")[0]).exists() or flag in IN_PLACE, flag
            continue
        spec = specs.get(flag)
        takes = spec is not None and not spec.switch
        if (takes or flag in {*WITH_A_VALUE, "--suite-config"}) and not equals:
            value = words.pop(0)
        if flag in ("-m", "-k"):
            check_expression(flag, value)
        elif spec is not None:
            text = "true" if spec.switch else IN_PLACE.get(value, value)
            values[spec.dest] = [*values.get(spec.dest, []), text] if spec.repeatable else text
        else:
            known = {*OF_PLUGINS, *WITH_A_VALUE, "--suite-config", "--co", "--markers", "--help"}
            assert flag in known or flag.startswith("--benchmark-"), flag
    resolve_settings(values, {})


def check_expression(flag: str, expression: str) -> None:
    names = set(re.findall(r"[A-Za-z]\w+", expression)) - {"and", "or", "not"}
    if flag == "-m":
        ini = (ROOT / "pytest.ini").read_text()
        of_core = re.findall(r"^    (\w+):", ini, re.MULTILINE)
        of_features = (name for feature in features() for name in feature.markers)
        assert names <= {*of_core, *of_features, "hypothesis"}
    else:
        tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
        assert [name for name in names if name not in tests] == []


def parsers() -> dict[str, ArgumentParser]:
    """The real parser of each command of mlperf-suite."""
    places = {name: place for of in features() for name, place in of.commands.items()}
    of_features = {name: import_module(place).COMMAND for name, place in places.items()}
    entries = {**COMMANDS, **of_features}
    made = {name: ArgumentParser(name, exit_on_error=False) for name in entries}
    for name, entry in entries.items():
        entry.add_options(made[name])
    return made


PARSERS = parsers()


def commands_beside_pytest() -> list[tuple[Path, str]]:
    """Those of blocks, and what sentences name with options of `mlperf-suite`, `make` or Python."""
    own = rf"{OURS}|({'|'.join(PARSERS)}) .*--"
    rows = set()
    for guide in GUIDES:
        # The list of changes names commands that there were.
        named = [] if guide == CHANGES else [s for s in spans(guide) if re.match(own, s)]
        rows |= {(guide, s) for s in [*commands(guide), *named] if not re.match(PYTEST, s)}
    return sorted(rows, key=str)


@pytest.mark.parametrize(("guide", "line"), commands_beside_pytest(), **IDS)
def test_any_other_command_is_of_the_suite_or_of_the_system(guide: Path, line: str) -> None:
    words = shlex.split(re.sub(r"^(\w+=\S+ )+", "", line))
    if words[0].endswith("mlperf-suite") or words[1:3] == ["-m", "mlperf_suite"]:
        words = words[3 if words[1] == "-m" else 1 :] or ["--help"]
    # After it, options of pytest.
    words = words[: words.index("--")] if "--" in words else words
    if words[0] == "make":
        assert {w for w in words[1:] if "=" not in w} <= targets()
    elif words[0] in PARSERS:
        parser = PARSERS[words[0]]
        if line in commands(guide) and "…" not in line:
            assert parser.parse_known_args(words[1:])[1] == []
        flags = {w.partition("=")[0] for w in words[1:] if w.startswith("--")}
        assert flags <= set(parser._option_string_actions)
    elif words[1:2] == ["-m"]:
        if words[2] not in ("pip", "submission_checker.main", "sglang.launch_server"):
            check_module(words[2], words[3:])
    elif Path(words[0]).suffix == ".py" or words[0].startswith("scripts/"):
        assert (ROOT / words[0]).exists(), line
    else:
        assert words[0] in {*OF_THE_SYSTEM, "--help"}, line


def check_module(module: str, words: list[str]) -> None:
    """A program of ours has an option if a file of its folder has it."""
    assert is_there(module)
    path = ROOT / module.replace(".", "/")
    files = (path if path.is_dir() else path.parent).glob("*.py")
    text = "".join(file.read_text() for file in files)
    assert [w for w in words if w.startswith("--") and w not in text] == []
