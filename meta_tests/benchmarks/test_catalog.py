"""The benchmarks that the suite knows, what each says of itself, and one that a plugin adds."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.catalog import BENCHMARKS, default_benchmarks, find_benchmark, runnable
from mlperf_suite.benchmarks.definition import CATEGORIES, SCENARIOS, at_least, within
from mlperf_suite.benchmarks.embedded import EMBEDDED, EMBEDDED_REFERENCE_TABLE
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import AUDIT_MODES


def test_every_benchmark_is_known_once_by_its_id() -> None:
    assert len({b.id for b in BENCHMARKS.values()}) == len(BENCHMARKS) >= 5
    assert BENCHMARKS[LLAMA2_70B_99.id] is LLAMA2_70B_99
    assert default_benchmarks() == [LLAMA3_1_8B, LLAMA3_1_8B_EDGE]
    assert runnable() == list(BENCHMARKS.values())


def test_a_benchmark_is_found_by_any_of_its_names() -> None:
    for benchmark in BENCHMARKS.values():
        for name in (benchmark.id, *benchmark.aliases):
            assert find_benchmark(name) is (benchmark if benchmark.in_trees else None)
    assert find_benchmark("resnet50") is None


@pytest.mark.parametrize("row", BENCHMARKS.values(), ids=lambda row: row.id)
def test_what_a_benchmark_says_fits_together(row: Any) -> None:
    names = [s.name for s in row.scenarios]
    assert len(set(names)) == len(names) and set(names) <= set(SCENARIOS)
    every = {s.name for s in row.every_scenario}
    assert {name for group in row.required for name in group} <= every
    assert all(row.scenario(name).name == name for name in names)
    with pytest.raises(KeyError, match="has no scenario MultiStream"):
        row.scenario("MultiStream")
    assert row.category in CATEGORIES and set(row.rounds) <= set(ROUNDS)
    assert row.reference.answers == row.samples_of("accuracy")
    assert {audit.mode for audit in row.audits} <= set(AUDIT_MODES)
    assert len(set(row.metrics)) == len(row.metrics) > 0
    for workload in filter(None, (row.workload, row.smoke)):
        assert [score.name for score in workload.reference.scores] == list(row.metrics)
    assert row.workload is None or row.workload.reference is row.reference


# What a run over a part of the data must score


def test_the_whole_embedded_table_gives_the_figures_that_are_written_down() -> None:
    # The last answers of the table are of the whole set, whose means are written beside it.
    assert EMBEDDED.reference_of is not None
    reference = EMBEDDED.reference_of(84)
    for score in EMBEDDED.reference.scores:
        assert reference.of(score.name) == score
    assert EMBEDDED.reference_for(84) is EMBEDDED.reference
    assert EMBEDDED.reference_for(85) is None


@pytest.mark.parametrize("answers", [1, 22, 83])
def test_a_part_of_the_embedded_data_is_compared_with_its_own_samples(answers: int) -> None:
    with EMBEDDED_REFERENCE_TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))[:answers]
    reference = EMBEDDED.reference_for(answers)
    assert reference is not None and reference.answers == answers
    rouge1, gen_len = reference.of("rouge1"), reference.of("gen_len")
    assert rouge1 is not None and gen_len is not None
    mean = sum(float(row["rouge1"]) for row in rows) / answers * 100
    assert rouge1.value == pytest.approx(mean, abs=1e-4)
    assert gen_len.value == sum(int(row["characters"]) for row in rows)
    # The gate is as far from the mean as one of so few answers scatters: rouge1 by 14% each.
    margin = 0.14 / answers**0.5
    assert rouge1.share == pytest.approx(1 - 4 * margin)
    assert rouge1.strict_share == pytest.approx(1 - 3 * margin)
    length = max(0.1, 4 * 0.12 / answers**0.5)
    assert gen_len.share == pytest.approx(1 - length)


def test_the_least_that_passes() -> None:
    score = at_least("rouge1", 40, 0.99, 0.999)
    assert (score.low(), score.low(strict=True)) == (pytest.approx(39.6), pytest.approx(39.96))
    length = within("gen_len", "characters", 1000)
    assert (length.low(strict=True), length.high) == (pytest.approx(900), pytest.approx(1100))


def test_a_model_is_known_by_its_name_or_by_its_shape() -> None:
    shape = dict(OFFICIAL.model_identity.shape)
    assert OFFICIAL.is_model("META-LLAMA/Llama-3.1-8B-Instruct", None)
    assert OFFICIAL.is_model("/models/llama", shape | {"torch_dtype": "bfloat16"})
    assert not OFFICIAL.is_model("/models/llama", None)
    assert not OFFICIAL.is_model("/models/llama", shape | {"num_hidden_layers": 80})
    assert not EMBEDDED.is_model("other", {})


# Adding a benchmark touches its own file, its data and its scorer: proven with one


PLUGIN = ("-p", "meta_tests.added_benchmark_plugin")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    folder = tmp_path_factory.mktemp("added")
    return run_suite(folder, "-m", "offline and accuracy", "--benchmark=numbers-1b", *PLUGIN)


def test_it_runs_scores_and_is_judged_by_its_own_metrics(numbers: SuiteRun) -> None:
    assert numbers.exit_code == 0, numbers.output
    statuses = {rule: status for rule, status in numbers.statuses().items() if "accuracy_" in rule}
    for metric in ("even", "odd", "mean_tokens"):
        assert statuses[f"accuracy_{metric}"] == "passed"
    assert "accuracy_rouge1" not in statuses
    meta = numbers.summary.meta
    assert (meta.benchmark, meta.scenario, meta.status) == ("numbers-1b", "Offline", "complete")
    assert numbers.folder.name.endswith("-numbers-1b-offline")


def test_its_scores_are_in_every_file_by_their_own_names(numbers: SuiteRun) -> None:
    figures = numbers.summary.run.accuracy
    assert figures is not None
    values = {score.name: (score.value, score.unit) for score in figures.scores}
    assert values == {"even": (100.0, "%"), "odd": (50.0, "%"), "mean_tokens": (2.0, "tokens")}
    own = json.loads((numbers.folder / "Accuracy" / "last_token.json").read_text())
    assert own["even"] == 100.0
    report = (numbers.folder / "report.md").read_text().replace("\\_", "_")
    assert "odd" in report and "mean_tokens" in report


def test_its_logs_are_judged_too(numbers: SuiteRun) -> None:
    """Without the plugin nobody knows the benchmark, and says so instead of passing it."""
    package = Path(__file__).parents[2] / "mlperf_suite"
    assert [p for p in package.rglob("*.py") if "numbers-1b" in p.read_text()] == []
    (judged, *_) = judge_folder(numbers.results_dir)
    assert judged.failed_rules
