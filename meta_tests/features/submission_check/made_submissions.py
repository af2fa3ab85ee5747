"""Made-up submissions that obey every rule."""

import hashlib
import json
from pathlib import Path

from meta_tests.made_runs import MadeRun, write_run
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.features.submission_check.scenario_folders import CODE
from mlperf_suite.features.submission_check.submission_rules import (
    SYSTEM_FIELDS_FILLED,
    SYSTEM_FIELDS_PRESENT,
)
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.rules.facts import Division


def system_fields() -> dict[str, str]:
    """A system's description with something in every field."""
    fields = dict.fromkeys((*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT), "made up")
    return fields | {"number_of_nodes": "1", "accelerators_per_node": "0"}


def offered_in(benchmark: Benchmark, round_: str) -> list[Scenario]:
    """The scenarios that a round offers; none if it does not offer the benchmark."""
    is_offered = round_ in benchmark.rounds
    return [s for s in benchmark.scenarios if is_offered and (not s.rounds or round_ in s.rounds)]


def write_submission(
    root: Path,
    benchmark: Benchmark,
    round_: Round,
    *,
    division: Division = "closed",
    submitter: str = "Someone",
    system: str = "box",
    scenarios: tuple[str, ...] | None = None,
    name: str | None = None,
) -> Path:
    """Write a submission that obeys every rule, in the round's layout; returns its folder.

    `scenarios`: all that the round offers by default, of the benchmark's own where it offers none.
    `name`: what the tree calls the benchmark.
    """
    submission = root / division / submitter
    for scenario in offered_in(benchmark, round_.name) or benchmark.scenarios:
        if scenarios is None or scenario.name in scenarios:
            path = (system, name or benchmark.id, scenario.name)
            _write_result(submission, path, benchmark, scenario, round_, division)
    systems = submission / "systems"
    systems.mkdir(exist_ok=True)
    described = system_fields() | {"submitter": submitter, "division": division}
    described |= {"status": "available", "system_type": benchmark.category}
    (systems / f"{system}.json").write_text(json.dumps(described))
    code = submission / CODE[round_.layout]
    code.mkdir(exist_ok=True)
    (code / "README.md").write_text("made up\n")
    return submission


def _write_result(
    submission: Path,
    path: tuple[str, str, str],
    benchmark: Benchmark,
    scenario: Scenario,
    round_: Round,
    division: Division,
) -> None:
    result = submission.joinpath("results", *path)
    v6 = round_.layout == "v6"
    measurements = result if v6 else submission.joinpath("measurements", *path)
    audits = result if v6 else submission.joinpath("compliance", *path)
    accuracy = MadeRun(benchmark, scenario, "accuracy", round_)
    accuracy.hash = hashlib.sha256("/".join(path).encode()).hexdigest()
    write_run(result / "accuracy", accuracy)
    (result / "accuracy" / "accuracy.txt").write_text(accuracy.accuracy_txt)
    (result / "accuracy" / ACCURACY).write_text(accuracy.cut_log)
    write_run(result / "performance" / "run_1", MadeRun(benchmark, scenario, "performance", round_))
    measurements.mkdir(parents=True, exist_ok=True)
    (measurements / "user.conf").write_text("made up\n")
    (measurements / "README.md").write_text("made up\n")
    names = "input_data_types retraining starting_weights_filename weight_data_types"
    described = dict.fromkeys((*names.split(), "weight_transformations"), "made up")
    file = "measurements.json" if v6 else f"{path[0]}_{scenario.name}.json"
    (measurements / file).write_text(json.dumps(described))
    for audit in benchmark.audits if division == "closed" else ():
        load = MadeRun(benchmark, scenario, audit.mode, round_)
        (audits / audit.name / "accuracy").mkdir(parents=True)
        (audits / audit.name / "accuracy" / ACCURACY).write_text(load.accuracy_json)
        (audits / audit.name / audit.verified_in).write_text(load.verify_txt)
        if audit.also_verified_in:
            (audits / audit.name / audit.also_verified_in).write_text(load.verify_txt)
            write_run(audits / audit.name / "performance" / "run_1", load)
