"""The pages agree with the code and with each other: links, commands, options, pictures."""

import json
import re
import shlex
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from meta_tests.module_imports import ORDER, PACKAGE, PLACES
from meta_tests.plugin.pytest_output import pytest_output
from meta_tests.suite_runs import ROOT
from mlperf_suite.commands import COMMANDS
from mlperf_suite.feature import features
from mlperf_suite.features.submission_check.submission_rules import missing_system_fields
from mlperf_suite.option_specs import OptionSpec
from mlperf_suite.plugin.options import rewrite
from mlperf_suite.rules.registry import every_rule
from mlperf_suite.settings import OPTIONS, resolve_settings
from scripts import make_options, make_rules_page, make_summary_page

ENGLISH, KOREAN = ROOT / "README.md", ROOT / "docs" / "README.ko.md"
TRANSLATED = {
    ENGLISH: KOREAN,
    **{
        ROOT / "docs" / f"{name}.md": ROOT / "docs" / f"{name}.ko.md"
        for name in ("from-run-py", "troubleshooting")
    },
}
CHANGES = ROOT / "docs" / "CHANGELOG.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
GUIDES = [ENGLISH, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "perf").glob("*.md"))]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FOLDERS = (
    *("mlperf_suite", "fixtures", "tests", "meta_tests", "evidence", "perf", "scripts", "docs"),
    *("requirements", "kubernetes"),
)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|yml|csv|jsonl|toml|sh|ini|lock|j2))")
_IDS: dict[str, Any] = {
    "ids": lambda path: str(path.relative_to(ROOT)) if isinstance(path, Path) else path
}


def blocks(guide: Path, language: str = "bash") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", guide.read_text(), re.DOTALL)


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


def code(guide: Path) -> list[str]:
    """What a guide sets as code: its blocks and its spans."""
    return [*re.findall(r"```.*?```", guide.read_text(), re.DOTALL), *spans(guide)]


def links_of(page: Path) -> list[str]:
    """The pages that a page links, without the anchors."""
    return re.findall(r"\]\(([^)#]+)", page.read_text())


# Korean pages


def samples(guide: Path) -> set[str]:
    """The blocks that are no commands, such as a run's output."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    return {text for language, text in fences if language != "bash"}


def rows(page: Path) -> list[list[int]]:
    """The number of cells in each row of a page's tables, a list for each section."""
    return [
        [line.replace("\\|", "").count("|") for line in part.splitlines() if line.startswith("|")]
        for part in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    ]


@pytest.mark.parametrize("english", TRANSLATED, **_IDS)
def test_the_korean_page_has_commands_rows_and_everything_set_as_code(english: Path) -> None:
    korean = TRANSLATED[english]
    assert set(commands(english)) - set(commands(korean)) == set()
    assert samples(english) - samples(korean) == set()
    assert [part for part in rows(english) if part not in rows(korean)] == []
    assert set(spans(english)) - set(spans(korean)) == set()
    for page, other in ((english, korean), (korean, english)):
        assert other in {(page.parent / link).resolve() for link in links_of(page)}
    # A Korean reader is sent to the Korean page of what has one.
    translations = {path.name for path in TRANSLATED if path != ENGLISH}
    assert (set(links_of(korean)) - {english.name}) & translations == set()


def test_the_korean_pages_have_the_options() -> None:
    flags = {span.split()[0] for span in spans(ROOT / "docs" / "options.ko.md")}
    assert {spec.flag for spec in OPTIONS} - flags == set()


# Options


def test_the_page_of_options_is_made_of_the_code() -> None:
    assert make_options.PAGE.read_text() == make_options.page(), "run: make options"


def test_the_page_of_rules_is_as_the_code_declares_them() -> None:
    assert make_rules_page.PAGE.read_text() == make_rules_page.page(), "run: make rules-page"
    subjects = {subject for group in make_rules_page.SECTIONS.values() for subject in group}
    assert subjects == {rule.subject for rule in every_rule()}


def test_the_page_of_the_summary_is_made_of_its_types() -> None:
    page, schema = make_summary_page.PAGE, make_summary_page.SCHEMA
    assert page.read_text() == make_summary_page.page(), "run: make summary-page"
    assert json.loads(schema.read_text()) == make_summary_page.schema(), "run: make summary-page"


def test_the_help_tells_every_option() -> None:
    output = pytest_output("--help")
    assert [spec.flag for spec in OPTIONS if spec.flag not in output] == []
    assert "require 99.9% of the reference accuracy" in " ".join(output.split())


# Links, paths, modules and targets


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.replace(" ", "-") for head in plain}


def is_there(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("guide", GUIDES, **_IDS)
def test_every_link_leads_somewhere(guide: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", guide.read_text())
    links += re.findall(r'(?:src|srcset)="([^"]+)"', guide.read_text())
    for link in links:
        name, _, anchor = link.partition("#")
        if name.startswith("http"):
            continue
        page = guide.parent / name if name else guide
        assert page.exists(), link
        assert not anchor or anchor in anchors(page), link


@pytest.mark.parametrize("guide", GUIDES, **_IDS)
def test_what_a_guide_names_is_there(guide: Path) -> None:
    """Files in the repository's folders, modules, targets of make."""
    text = "\n".join(code(guide))
    paths = re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = re.findall(r"python -m ((?:mlperf_suite|perf|meta_tests|evidence)[\w.]*)", text)
    modules += re.findall(r"\bmlperf_suite(?:\.\w+)+", text)
    assert [module for module in modules if not is_there(module)] == []
    targets_named = re.findall(r"^(?:\w+=\S+ )*make ([a-z-]+)", text, re.MULTILINE)
    assert set(targets_named) - {"commands"} <= targets()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


# Commands

OF_PLUGINS = {"--junitxml", "--alluredir", "--dist", "--benchmark-autosave", "--benchmark-compare"}
WITH_A_VALUE = {"-m", "-k", "-n", "-c", "-p", "--dist", "--tune"}
OF_THE_SYSTEM = {
    *("export", "set", "cd", "mkdir", "cp", "mv", "printf", "tar", "git", "curl", "jq"),
    *("nvidia-smi", "docker", "podman", "buildah", "kubectl", "litellm", "pip", "uvx"),
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


@pytest.mark.parametrize(("guide", "arguments"), pytest_commands(), **_IDS)
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


@pytest.mark.parametrize(("guide", "line"), commands_beside_pytest(), **_IDS)
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
        if words[2] not in ("pip", "submission_checker.main"):
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


def test_the_settings_files_and_the_system_on_the_pages_are_taken(tmp_path: Path) -> None:
    files = [text for guide in GUIDES for text in blocks(guide, "toml")]
    assert len(files) >= 3
    for text in files:
        (tmp_path / "suite.toml").write_text(text)
        resolve_settings({}, {}, str(tmp_path / "suite.toml"))
    described = json.loads((ROOT / "docs" / "system.json").read_text())
    assert missing_system_fields(described) == []


# Pictures


def test_the_readme_has_a_picture_for_light_and_for_dark() -> None:
    for scheme in ("light", "dark"):
        name = f"docs/pictures/report-{scheme}.png"
        assert name in ENGLISH.read_text() and name.removeprefix("docs/") in KOREAN.read_text()
        assert (ROOT / name).read_bytes().startswith(b"\x89PNG")


# docs/architecture.md


def test_the_page_says_where_outside_libraries_are_imported() -> None:
    row = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| ([`\w/, ]+) \|$", re.MULTILINE)
    places = {
        library: tuple(re.findall(r"`([\w/]+)`", where))
        for libraries, where in row.findall(ARCHITECTURE.read_text())
        for library in re.findall(r"`(\w+)`", libraries)
    }
    assert places == PLACES


def test_the_page_has_paths_that_there_are_and_the_layers_in_their_order() -> None:
    words = re.split(r'\s|<br/>|["\[\]]', "\n".join(code(ARCHITECTURE)))
    paths = {word for word in words if _PATH.fullmatch(word)}
    assert len(paths) > 50
    folders = (ROOT, PACKAGE, *(PACKAGE / "features").iterdir())
    absent = [path for path in paths if not any((base / path).exists() for base in folders)]
    assert absent == []
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    assert tuple(rows) == ORDER


# The workflows


def _steps(path: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(path.read_text())
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_options_and_secrets_that_are_there(path: Path) -> None:
    flags = {spec.flag for spec in OPTIONS} | {"--junitxml", "--alluredir", "--benchmark-json"}
    for step in _steps(path):
        run = step.get("run", "")
        # Untrusted text must not stand in a shell's text.
        assert "github.event.pull_request.title" not in run
        assert "secrets." not in run
        for targets_named in re.findall(r"^\s*make (.+)$", run, re.MULTILINE):
            assert set(targets_named.split()) <= targets()
        for line in run.replace("\\\n", " ").splitlines():
            if "-m pytest" in line:
                assert set(re.findall(r"(?<=\s)--[a-z-]+", line)) <= flags
