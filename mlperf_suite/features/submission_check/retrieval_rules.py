"""What the files of e2e-rag-qna and e2e-rag-db must say, of which the suite runs neither.

They retrieve from 2,515 pages of Wikipedia with an embedding model, a reranker and two language
models, 283 GB in all. Sources: e2e-rag/ and compliance/TEST09/e2e-rag-qna/audit.config of
mlcommons/inference b66003e1, and the submission checker's constants.py there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, in_words, no_demand, not_judged, verdict

_retrieval_rule = partial(rule, "retrieval")
_SUCCESS, _ACCURACY = "Success rate", "Accuracy"
_FIGURE = r"^{}:\s*(\d{{1,15}}(?:\.\d{{1,20}})?)%?\s*$"
_OVERALL = re.compile(r"^Overall(?: Result)?: ([A-Z ]{4,9})\s*$", re.MULTILINE)
_MEAN = "Mean output tokens"
_COUNTED = "Total samples"


@dataclass(frozen=True, slots=True)
class RetrievalTargets:
    """What a benchmark asks: queries or documents, the least accuracy in percent, and the least and
    most mean tokens of an answer, if it has TEST09. `figures`: the names of the accuracy in
    accuracy.txt; of several, the first that is there."""

    samples: int
    accuracy: float
    figures: tuple[str, ...]
    tokens: tuple[float, float] | None = None


RETRIEVAL = {
    # README.md of compliance/TEST09/e2e-rag-qna has other limits (211.92 and 259.02); the script
    # reads those of audit.config.
    "e2e-rag-qna": RetrievalTargets(824, 33.95, (_ACCURACY,), (246.43, 301.19)),
    # The reference writes no line `Accuracy:`, the only one that the checker reads.
    "e2e-rag-db": RetrievalTargets(2515, 98.0, (_ACCURACY, _SUCCESS)),
}


@dataclass(frozen=True, slots=True)
class RetrievalFacts(Facts):
    """A result. Texts are None for a missing file; `verify_txt` is TEST09's
    verify_output_len.txt."""

    name: str
    division: str
    accuracy_txt: str | None
    verify_txt: str | None
    performance: DetailLog
    accuracy: DetailLog

    @property
    def subject(self) -> Subject:
        return "retrieval"

    @property
    def targets(self) -> RetrievalTargets:
        return RETRIEVAL[self.name]


def _figures(text: str, name: str) -> set[float]:
    found = re.findall(_FIGURE.format(re.escape(name)), text, re.MULTILINE)
    return {float(figure) for figure in found}


@_retrieval_rule(
    source="submission checker, ACC_PATTERN: E2E_ACCURACY; e2e-rag: accuracy_eval.py, "
    "datasetup_accuracy_eval.py",
    fix="Submit the accuracy.txt that the reference's script wrote for this run.",
)
def accuracy(facts: RetrievalFacts) -> Verdict:
    """The accuracy in accuracy.txt reaches the benchmark's: of answers by the judge model, or of
    ingested documents."""
    targets = facts.targets
    required = f"at least {targets.accuracy:g}%"
    if facts.accuracy_txt is None:
        return verdict(False, "no accuracy.txt", required)
    for name in targets.figures:
        if values := _figures(facts.accuracy_txt, name):
            says = _OVERALL.search(facts.accuracy_txt)
            failed = "FAIL" in says[1] if says else False
            found = f"{name} {', '.join(f'{value:g}%' for value in sorted(values))}"
            why = "the script's own result is FAIL" if failed else ""
            is_met = len(values) == 1 and targets.accuracy <= min(values) <= 100
            return verdict(is_met and not failed, found, required, why)
    return verdict(False, f"no line {' or '.join(targets.figures)}", required)


@_retrieval_rule(
    source="submission checker, OFFLINE_MIN_SPQ_SINCE_V4 and performance-sample-count; no least "
    "duration (min_duration_check); e2e-rag/user.conf",
    fix="Run over the whole data set, and submit the logs as LoadGen wrote them.",
)
def samples(facts: RetrievalFacts) -> Verdict:
    """Both runs are Offline over the whole data set, and LoadGen called the performance run
    VALID."""
    least = facts.targets.samples
    required = f"Offline, VALID, {least:,} samples"
    faults = []
    keys = {
        "performance": ("effective_samples_per_query", "effective_performance_sample_count"),
        "accuracy": ("effective_performance_sample_count",),
    }
    logs: Mapping[str, DetailLog] = {"performance": facts.performance, "accuracy": facts.accuracy}
    for mode, log in logs.items():
        if log["effective_scenario"] != "Offline":
            faults.append(f"{mode}: {in_words(log['effective_scenario'])}")
        counts = {key: log.number(key) for key in keys[mode]}
        faults += [
            f"{mode}: {key} {'missing' if count is None else f'{count:,.0f}'}"
            for key, count in counts.items()
            if count is None or not count >= least
        ]
    if facts.performance["result_validity"] != "VALID":
        faults.append(f"performance: {in_words(facts.performance['result_validity'])}")
    return verdict(not faults, "; ".join(faults) or required, required)


@_retrieval_rule(
    source="submission checker, models_TEST09; compliance/TEST09: run_verification.py and "
    "e2e-rag-qna/audit.config",
    fix="Run TEST09 over all 824 queries, and submit verify_output_len.txt as its script wrote it.",
)
def output_length(facts: RetrievalFacts) -> Verdict:
    """For e2e-rag-qna, closed: TEST09's file says TEST PASS, over every query, with a mean answer
    length within the limits."""
    if facts.targets.tokens is None:
        return no_demand("a benchmark without TEST09")
    low, high = facts.targets.tokens
    required = f"TEST PASS, {facts.targets.samples:,} samples, {low:g} to {high:g} tokens"
    if facts.division == "open":
        return not_judged("open division", required, "only closed submissions need audits")
    if facts.verify_txt is None:
        return verdict(False, "no verify_output_len.txt", required)
    text, says = facts.verify_txt, _OVERALL.search(facts.verify_txt)
    means, counts = _figures(text, _MEAN), _figures(text, _COUNTED)
    found = "; ".join(
        f"{name} {', '.join(f'{value:g}' for value in sorted(of)) or 'missing'}"
        for name, of in ((_COUNTED, counts), (_MEAN, means))
    )
    is_met = (
        len(means) == len(counts) == 1
        and low <= min(means) <= high
        and min(counts) >= facts.targets.samples
        and says is not None
        and says[1].strip() == "TEST PASS"
    )
    return verdict(is_met, f"{says[1].strip() if says else 'no verdict'}; {found}", required)
