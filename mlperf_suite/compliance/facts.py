"""All that a rule may look at: one run's logs, and what is known of it besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mlperf_suite.benchmarks.definition import Benchmark, ReferenceAccuracy, Scenario, Workload
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.loadgen.logs import RunLogs

Division = Literal["closed", "open"]


@dataclass(frozen=True, slots=True)
class SubmittedTexts:
    """The texts that a submission has beside its logs; None is a file that is not there."""

    accuracy_txt: str | None = None
    verify_accuracy_txt: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that a rule may look at.

    `scores`: an accuracy run's figures by the names of accuracy.txt, shares in percent; None where
    there are none, and `unscored` says why where that is nobody's fault. `reference`: what to
    compare them with; None where nothing is known, and `unreferenced` says why.
    `accuracy_passed`: of the same system, None where no accuracy run was made. `smoke`: rules may
    be shortened. `submitted`: from a submission, whose accuracy log is cut and whose TEST06 need
    not bring a detail log. `eos_token_ids`: the model's own, None where unknown. `departures`: how
    the session generates otherwise than the benchmark says; None where only logs are known, which
    do not tell.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round
    logs: RunLogs
    smoke: bool = False
    scores: Mapping[str, float] | None = None
    unscored: str = ""
    reference: ReferenceAccuracy | None = None
    unreferenced: str = ""
    high_accuracy: bool = False
    accuracy_passed: bool | None = None
    division: Division = "closed"
    submitted: SubmittedTexts | None = None
    eos_token_ids: tuple[int, ...] | None = None
    departures: tuple[str, ...] | None = None


def find_reference(
    workload: Workload,
    model: str,
    dataset: str,
    samples: int,
    model_config: Mapping[str, object] | None = None,
) -> tuple[ReferenceAccuracy | None, str]:
    """What a run must score, or None and the reason why nobody knows it.

    `samples`: how many of the data set it takes. `model_config`: the model's config.json, by which
    a copy under another name is known; None where it cannot be read.
    """
    if not workload.is_model(model, model_config):
        return None, f"no reference accuracy is known for model {model}"
    # A local copy of the official data has any name; each sample's own scores are of one data set.
    if workload.reference_of is not None and dataset != workload.dataset:
        return None, f"no reference accuracy is known for data set {dataset}"
    found = workload.reference_for(samples) if samples > 0 else None
    if found is None:
        whole = f"{workload.reference.answers:,}"
        return None, f"{samples:,} of {whole} samples: the gate holds for the whole data set"
    return found, ""
