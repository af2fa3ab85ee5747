"""What pages, tests/ and pictures say in words and numbers that stand elsewhere too."""

from __future__ import annotations

import re

import pytest

from meta_tests.pages import ENGLISH
from meta_tests.suite_runs import ROOT
from mlperf_suite.benchmarks.catalog import runnable
from mlperf_suite.benchmarks.definition import Scenario

LIMITS = re.compile(r"^ {4}(\S+) +([\d,]+) +([\d,]+)$", re.M)


@pytest.mark.parametrize("name", ["Server", "Interactive"])
def test_the_limits_in_words_are_those_of_the_benchmarks(name: str) -> None:
    source = (ROOT / f"tests/performance/test_{name.lower()}.py").read_text()
    limits = {row[0]: (_ms(row[1]), _ms(row[2])) for row in LIMITS.findall(source)}
    scenarios: dict[str, Scenario] = {
        benchmark.id.removesuffix("-99").removesuffix("-99.9"): scenario
        for benchmark in runnable()
        for scenario in benchmark.scenarios
        if scenario.name == name
    }
    official = {id_: scenario.limits for id_, scenario in scenarios.items()}
    assert limits == {id_: (ms["ttft"], ms["tpot"]) for id_, ms in official.items() if "ttft" in ms}
    ttft_ms, tpot_ms = limits["llama3.1-8b"]
    assert f"TTFT p99 is below {ttft_ms:,} ms" in source
    assert f"TPOT p99 is below {tpot_ms:,} ms" in source


def _ms(text: str) -> int:
    return int(text.replace(",", ""))


KOREAN = ROOT / "docs" / "README.ko.md"


def test_the_readme_has_a_picture_for_light_and_for_dark() -> None:
    for scheme in ("light", "dark"):
        name = f"docs/pictures/report-{scheme}.png"
        assert name in ENGLISH.read_text() and name.removeprefix("docs/") in KOREAN.read_text()
        assert (ROOT / name).read_bytes().startswith(b"\x89PNG")
