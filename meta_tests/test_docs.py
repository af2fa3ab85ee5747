"""The pages agree with the code and with each other: links and options.

Their commands and pictures are in evidence/pages.
"""

import json
import re
from pathlib import Path

import pytest

from meta_tests.module_imports import ORDER, PACKAGE, PLACES
from meta_tests.pages import ENGLISH, GUIDES, IDS, commands, is_there, spans, targets
from meta_tests.plugin.pytest_output import pytest_output
from meta_tests.suite_runs import ROOT
from mlperf_suite.rules.registry import every_rule
from mlperf_suite.settings import OPTIONS, resolve_settings
from scripts import make_options, make_rules_page, make_summary_page

KOREAN = ROOT / "docs" / "README.ko.md"
TRANSLATED = {
    ENGLISH: KOREAN,
    **{
        ROOT / "docs" / f"{name}.md": ROOT / "docs" / f"{name}.ko.md"
        for name in ("from-run-py", "troubleshooting")
    },
}
ARCHITECTURE = ROOT / "docs" / "architecture.md"
FOLDERS = (
    *("mlperf_suite", "fixtures", "tests", "meta_tests", "evidence", "perf", "scripts", "docs"),
    *("requirements", "kubernetes"),
)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|yml|csv|jsonl|toml|sh|ini|lock|j2))")


def blocks(guide: Path, language: str = "bash") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", guide.read_text(), re.DOTALL)


def code(guide: Path) -> list[str]:
    """What a guide sets as code: its blocks and its spans."""
    return [*re.findall(r"```.*?```", guide.read_text(), re.DOTALL), *spans(guide)]


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#]+)", page.read_text())


# Korean pages


def samples(guide: Path) -> set[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    return {text for language, text in fences if language != "bash"}


def rows(page: Path) -> list[list[int]]:
    """The number of cells in each row of a page's tables, a list for each section."""
    return [
        [line.replace("\\|", "").count("|") for line in part.splitlines() if line.startswith("|")]
        for part in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    ]


@pytest.mark.parametrize("english", TRANSLATED, **IDS)
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


@pytest.mark.parametrize("guide", GUIDES, **IDS)
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


@pytest.mark.parametrize("guide", GUIDES, **IDS)
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


def test_the_settings_files_on_the_pages_are_taken(tmp_path: Path) -> None:
    files = [text for guide in GUIDES for text in blocks(guide, "toml")]
    assert len(files) >= 3
    for text in files:
        (tmp_path / "suite.toml").write_text(text)
        resolve_settings({}, {}, str(tmp_path / "suite.toml"))


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
