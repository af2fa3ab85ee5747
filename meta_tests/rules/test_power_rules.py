"""The rules of a power measurement on made-up sessions: each is broken by its damages alone.

That the official checks say the same is meta_tests/tampering/test_official_power.py.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.made_power import LENGTH, WATTS, give_times, write_session
from meta_tests.made_runs import MadeRun, write_run
from meta_tests.tampering.power import DAMAGES, facts_of, own
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.tree import read_power
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.rules import judge
from mlperf_suite.rules.power_measurement import power_figures
from mlperf_suite.rules.registry import rules_of

OFFLINE = LLAMA3_1_8B.scenario("Offline")
SINGLE = LLAMA3_1_8B_EDGE.scenario("SingleStream")
BROKEN = {
    "nothing: the folder as it is": "",
    "no spl.txt": "files phases checksums samples",
    "no spl.txt of ranging": "files phases checksums",
    "no client.log": "files checksums",
    "no ptd_logs.txt": "files checksums ptd_log",
    "no server.json": "files descriptors sources commands uuids session_name phases messages "
    "checksums ptd_log ptd_config debug",
    "no detail log of ranging": "files phases checksums",
    "a file too much in power/": "files",
    "a file too much in run_1/": "files",
    "a trace, which may be there": "",
    "client.json is no JSON": "descriptors sources uuids session_name phases messages checksums",
    "client.json is a list": "descriptors sources uuids session_name phases messages checksums",
    "client.json without phases": "descriptors phases",
    "server.json without uuid": "descriptors uuids",
    "server.json without ptd_messages": "commands",
    "another client.py": "sources",
    "a source file more": "sources",
    "PTDaemon 1.10.0": "commands",
    "another analyzer": "commands",
    "no answer to Identify": "commands",
    "a range that was refused": "commands",
    "a Go that was refused": "commands",
    "amperes not set back": "commands",
    "ranges that were fixed before": "commands",
    "ranges that cannot be read": "commands",
    "another client UUID": "uuids",
    "a UUID that is none": "uuids",
    "a UUID in capitals": "",
    "another session": "session_name",
    "both of another session": "ptd_log",
    "clocks 900 ms apart": "phases",
    "a phase less": "phases",
    "a phase that is text": "phases",
    "LoadGen after its phase": "phases",
    "testing at 94% of ranging": "phases checksums",
    "testing at 96% of ranging": "checksums",
    "testing at 110% of ranging": "checksums",
    "no watts at all": "phases checksums samples",
    "no watts in ranging": "phases checksums",
    "no power factor": "phases checksums",
    "a sample that is no number": "phases checksums samples",
    "a sample without a time": "phases checksums samples",
    "no power_begin": "phases checksums ptd_log samples",
    "power_end on another day": "phases checksums",
    "power_begin that is no time": "phases checksums ptd_log samples",
    "a message less": "messages",
    "another command": "messages",
    "another answer": "messages",
    "another version of the server": "messages",
    "client and server of another version": "messages",
    "the detail log was changed": "checksums",
    "the summary of ranging was changed": "checksums",
    "server.log was changed": "checksums",
    "a hash that was not written down": "checksums",
    "a hash that differs between the two": "checksums",
    "results that are a list": "checksums",
    "no uncertainty check": "checksums ptd_log",
    "the uncertainty check without a time": "checksums ptd_log",
    "no ranging in PTDaemon's log": "checksums ptd_log",
    "ranging that did not end": "checksums ptd_log",
    "an error in testing": "checksums ptd_log",
    "an error of the USB line in testing": "checksums",
    "a usual error in ranging": "checksums",
    "an odd error in ranging": "checksums",
    "an odd error in ranging, then one in testing": "checksums",
    "an error without a time": "checksums ptd_log",
    "a warning in testing": "checksums",
    "a warning in the middle of testing": "checksums",
    "a sample too uncertain in the middle of testing": "checksums ptd_log",
    "a sample too uncertain": "checksums",
    "a time that is none": "checksums ptd_log",
    "PTDaemon's log is not UTF-8": "checksums ptd_log",
    "PTDaemon's log ends its lines as Windows does": "checksums",
    "a timezone that is none": "ptd_log",
    "an analyzer that is not supported": "ptd_config",
    "a two-channel analyzer with one": "ptd_config",
    "a two-channel analyzer with two": "",
    "debug mode": "debug",
    "debug mode, said off": "",
    "debug mode, said 0": "debug",
}
"""By damage, the rules that it breaks, without their "power_"."""


def write(folder: Path, scenario: Scenario = OFFLINE) -> Path:
    """A folder `performance` with a measurement that obeys every rule."""
    benchmark = LLAMA3_1_8B if scenario is OFFLINE else LLAMA3_1_8B_EDGE
    write_run(folder / "run_1", MadeRun(benchmark, scenario, "performance", ROUNDS["v6.1"]))
    give_times(folder / "run_1")
    write_session(folder, folder / "run_1")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("whole"))


def test_each_damage_has_its_rules() -> None:
    assert list(BROKEN) == list(DAMAGES)
    rules_broken = {f"power_{rule}" for rules in BROKEN.values() for rule in rules.split()}
    assert rules_broken == {rule.name for rule in rules_of("power")}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_breaks_its_rules_and_no_other(tmp_path: Path, whole: Path, name: str) -> None:
    folder = tmp_path / "performance"
    shutil.copytree(whole, folder)
    DAMAGES[name](folder)
    verdicts = own(folder, OFFLINE)
    rules_broken = [
        rule.removeprefix("power_") for rule, holds in verdicts.items() if holds is False
    ]
    assert " ".join(rules_broken) == BROKEN[name]


def test_the_figures_are_the_mean_within_the_load(whole: Path) -> None:
    facts = facts_of(whole, OFFLINE)
    figures, rate = power_figures(facts), facts.detail[OFFLINE.metric]
    assert (figures.watts, figures.metric, figures.unit) == (WATTS, WATTS, "W")
    assert figures.efficiency == pytest.approx(rate / WATTS)
    (words,) = (v.found for v in judge(facts) if v.rule == "power_samples")
    assert words == f"9,436 W, {rate / WATTS:,.4g} tokens/s a W"


def test_single_stream_has_millijoules_a_query(tmp_path: Path) -> None:
    facts = facts_of(write(tmp_path, SINGLE), SINGLE)
    figures, queries = power_figures(facts), facts.detail["result_query_count"]
    assert figures.metric == pytest.approx(WATTS * LENGTH.total_seconds() * 1000 / queries)
    assert figures.efficiency == pytest.approx(1000 / figures.metric)


def test_a_run_without_power_has_no_rules_of_it(tmp_path: Path) -> None:
    assert read_power(tmp_path, OFFLINE, read_logs(tmp_path).detail) is None


@lru_cache(maxsize=1)
def _contents(whole: Path) -> dict[str, bytes]:
    return {str(p.relative_to(whole)): p.read_bytes() for p in whole.rglob("*") if p.is_file()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_no_damage_raises_and_none_that_changes_a_file_passes(
    tmp_path: Path, whole: Path, data: st.DataObject
) -> None:
    contents = _contents(whole)
    shutil.rmtree(tmp_path / "performance", ignore_errors=True)
    folder = tmp_path / "performance"
    shutil.copytree(whole, folder)
    name = data.draw(st.sampled_from(sorted(contents)))
    was = contents[name]
    at = data.draw(st.integers(0, len(was) - 1))
    new = was[:at] + data.draw(st.binary(max_size=4)) + was[at + data.draw(st.integers(0, 200)) :]
    (folder / name).write_bytes(new)
    verdicts = judge(facts_of(folder, OFFLINE))
    assert len(verdicts) == len(rules_of("power"))
    # Only the two that hold the hashes are in no hash themselves.
    if new != was and not name.endswith(".json"):
        assert not all(v.passed for v in verdicts)
