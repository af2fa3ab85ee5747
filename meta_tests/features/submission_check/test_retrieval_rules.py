"""The files of e2e-rag: honest ones pass, and each fault is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import V6_1, by_name, failures_by_run
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.features.submission_check.retrieval_rules import RETRIEVAL, RetrievalFacts
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.rules import judge

TEST09 = """TEST09: Verify Output Token Length in Performance Mode
Total samples: 824
Mean output tokens: 273.81
Min output tokens: 1
Max output tokens: 2829
Mean output tokens: 273.81
Overall: TEST PASS
"""
OF_DB = """RAG-DB Accuracy Report
Total files: 2515
Success rate: 99.40%
Required rate: 98.00%
Overall Result: PASS
"""


def log(samples: int) -> dict[str, Any]:
    return {
        "effective_scenario": "Offline",
        "effective_samples_per_query": samples,
        "effective_performance_sample_count": samples,
        "result_validity": "VALID",
    }


def honest(name: str) -> RetrievalFacts:
    detail = DetailLog(log(RETRIEVAL[name].samples))
    is_qna = name == "e2e-rag-qna"
    accuracy = "Accuracy: 34.1023\nhash=0\n" if is_qna else OF_DB
    return RetrievalFacts(name, "closed", accuracy, TEST09 if is_qna else None, detail, detail)


def failed(facts: RetrievalFacts) -> dict[str, str]:
    return {v.rule: v.line for v in judge(facts) if v.status == "failed"}


@pytest.mark.parametrize("name", RETRIEVAL)
def test_an_honest_result_passes(name: str) -> None:
    assert {v.status for v in judge(honest(name))} == {"passed"}
    assert failed(replace(honest(name), division="open", verify_txt=None)) == {}


Change = Callable[[RetrievalFacts], RetrievalFacts]


def logged(key: str, value: object) -> Change:
    return lambda facts: replace(
        facts, performance=DetailLog({**facts.performance.values, key: value})
    )


def scored(text: str | None) -> Change:
    return lambda facts: replace(facts, accuracy_txt=text)


def verified(old: str, new: str) -> Change:
    return lambda facts: replace(facts, verify_txt=TEST09.replace(old, new))


FAULTS: list[tuple[str, str, Change]] = [
    ("accuracy", "no accuracy.txt", scored(None)),
    ("accuracy", "33.9%", scored("Accuracy: 33.9\n")),
    ("accuracy", "no line Accuracy", scored("Accuracy: nan\n")),
    ("accuracy", "340%", scored("Accuracy: 340\n")),
    ("accuracy", "20%, 40%", scored("Accuracy: 20\nAccuracy: 40\n")),
    ("samples", "samples_per_query 100", logged("effective_samples_per_query", 100)),
    ("samples", "samples_per_query missing", logged("effective_samples_per_query", "824")),
    ("samples", "INVALID", logged("result_validity", "INVALID")),
    ("samples", "Server", logged("effective_scenario", "Server")),
    ("output_length", "no verify_output_len.txt", lambda f: replace(f, verify_txt=None)),
    ("output_length", "Mean output tokens 235.47", verified("273.81", "235.47")),
    ("output_length", "TEST FAIL", verified("PASS", "FAIL")),
    ("output_length", "Total samples 12", verified("samples: 824", "samples: 12")),
    ("output_length", "no verdict", verified(TEST09, "\x00" * 9)),
]


@pytest.mark.parametrize(("rule", "words", "change"), FAULTS)
def test_a_fault_is_named(rule: str, words: str, change: Change) -> None:
    faults = failed(change(honest("e2e-rag-qna")))
    assert list(faults) == [f"retrieval_{rule}"]
    assert words in faults[f"retrieval_{rule}"]


def test_the_data_bases_own_script_says_the_share_of_documents() -> None:
    facts = honest("e2e-rag-db")
    low, fails = OF_DB.replace("99.40", "97.9"), OF_DB.replace("Result: PASS", "Result: FAIL")
    assert "Success rate 97.9%" in failed(scored(low)(facts))["retrieval_accuracy"]
    assert "own result is FAIL" in failed(scored(fails)(facts))["retrieval_accuracy"]


def written(folder: Path, name: str) -> Path:
    result = folder / "results/box" / name / "Offline"
    facts = honest(name)
    for place in ("performance/run_1", "accuracy"):
        (result / place).mkdir(parents=True)
        lines = [
            ":::MLLOG " + json.dumps({"key": key, "value": value, "time_ms": 1.0})
            for key, value in facts.performance.values.items()
        ]
        (result / place / "mlperf_log_detail.txt").write_text("\n".join(lines) + "\n")
    (result / "accuracy/accuracy.txt").write_text(facts.accuracy_txt or "")
    if facts.verify_txt:
        (result / "TEST09").mkdir()
        (result / "TEST09/verify_output_len.txt").write_text(facts.verify_txt)
    return result


@pytest.mark.parametrize("name", RETRIEVAL)
def test_a_tree_with_retrieval_says_it_and_judges_its_files(tmp_path: Path, name: str) -> None:
    submission = write_submission(tmp_path, BENCHMARKS["llama3.1-8b"], V6_1)
    result = written(submission, name)
    assert failures_by_run(tmp_path) == {}
    (known,) = (
        v for v in by_name(tmp_path)[f"Someone-box-{name}"].verdicts if v.rule == "benchmark_known"
    )
    assert known.status == "not judged" and "retrieval with several models" in known.line
    (result / "accuracy/accuracy.txt").unlink()
    assert failures_by_run(tmp_path) == {f"Someone-box-{name}-Offline": ["retrieval_accuracy"]}
