"""Trees of benchmarks whose answers are graded: their official texts, and systems of both types."""

import json
import re
from pathlib import Path

import pytest

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import V5_1, V6_1, failures_by_run, verdict_lines
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B


def offline_file(root: Path, benchmark: Benchmark) -> Path:
    """A tree's accuracy.txt of Offline, of an open submission, which has no audits."""
    write_submission(root, benchmark, V6_1, division="open", scenarios=("Offline",))
    return root / "open/Someone/results/box" / benchmark.id / "Offline/accuracy/accuracy.txt"


HASH = f"\nhash={'0123456789abcdef' * 4}\n"
OFFICIAL_TEXTS = {
    "deepseek-r1": "{'exact_match': 81.4, 'tokens_per_sample': 3886.25, 'num-samples': 4388}",
    "gpt-oss-120b": "Total samples evaluated: 4395\n...\n'exact_match': 83.130",
}


@pytest.mark.parametrize("id_", OFFICIAL_TEXTS)
def test_the_number_of_answers_is_read_under_the_official_name(tmp_path: Path, id_: str) -> None:
    path = offline_file(tmp_path, BENCHMARKS[id_])
    path.write_text(OFFICIAL_TEXTS[id_] + HASH)
    assert failures_by_run(tmp_path) == {}
    (line,) = verdict_lines(tmp_path, "accuracy_every_sample")
    assert ": passed:" in line
    path.write_text(re.sub(r"43\d\d\b(?!\.)", "1000", OFFICIAL_TEXTS[id_]) + HASH)
    assert list(failures_by_run(tmp_path).values()) == [["accuracy_every_sample"]]


def test_where_no_official_text_says_the_number_it_is_not_judged(tmp_path: Path) -> None:
    offline_file(tmp_path, GPT_OSS_120B).write_text("'exact_match': 83.130" + HASH)
    assert failures_by_run(tmp_path) == {}
    assert ": not judged:" in verdict_lines(tmp_path, "accuracy_every_sample")[0]
    path = offline_file(tmp_path / "other", DEEPSEEK_R1)
    path.write_text("{'exact_match': 81.4, 'tokens_per_sample': 3886.25}" + HASH)
    assert list(failures_by_run(tmp_path / "other").values()) == [["accuracy_every_sample"]]


def test_a_system_of_both_types_needs_the_scenarios_of_both(tmp_path: Path) -> None:
    described = write_submission(tmp_path, DEEPSEEK_R1, V5_1) / "systems/box.json"
    both = json.loads(described.read_text()) | {"system_type": "datacenter,edge"}
    described.write_text(json.dumps(both))
    assert {tuple(rules) for rules in failures_by_run(tmp_path).values()} == {
        ("system_description",)
    }
