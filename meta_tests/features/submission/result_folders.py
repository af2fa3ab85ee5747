"""Result folders as the suite leaves them, and what the rules say of a tree built of them."""

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from meta_tests.features.endpoints.made_official_client import write_client_submission
from meta_tests.features.submission_check.made_submissions import system_fields
from meta_tests.made_runs import MadeRun, with_a_long_one, write_run
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.features.submission_check.submission_rules import MEASUREMENT_FIELDS
from mlperf_suite.hardware import describe_system
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.results.run_folder import RunFolder
from mlperf_suite.rules import judge

V6_1 = ROUNDS["v6.1"]
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
Change = Callable[[dict[str, Any]], object]


def write_result(
    results_dir: Path,
    benchmark: Benchmark,
    scenario: Scenario,
    round_: Round = V6_1,
    *,
    modes: Sequence[str] = MODES,
    config: Change = lambda config: None,
    meta: Change = lambda meta: None,
    summary: Change = lambda summary: None,
) -> Path:
    """A result folder as the suite leaves it after runs that obey every rule."""
    folder = RunFolder(results_dir, benchmark.id, scenario.name, datetime(2026, 11, 20))
    workload = benchmark.workload
    assert workload is not None
    verdicts: list[dict[str, object]] = []
    for mode in modes:
        audit = benchmark.audit(mode)
        if mode in AUDIT_MODES and audit is None:
            continue
        logs, run = folder.log_folder(mode), MadeRun(benchmark, scenario, mode, round_)
        write_run(logs, run)
        (logs / "user.conf").write_text("made up\n")
        verdicts += [v.as_json() for v in judge(run.facts())] if audit else []
        run.answers = run.answers[:120]
        if mode == "accuracy":
            run.answers = list(with_a_long_one(run.answers, run.longest))
        (logs / ACCURACY).write_text(run.accuracy_json)
        if mode == "accuracy" or (audit and (audit.least_score or audit.compares)):
            scores = {
                score.name if score.unit == "%" else f"run_{score.name}": float(score.value)
                for score in benchmark.reference.scores
            }
            scores["run_gen_num"] = benchmark.samples_of(mode)
            (logs / f"{workload.scorer.name}.json").write_text(json.dumps(scores))
    if verdicts:
        (folder.compliance / "verdicts.json").write_text(json.dumps(verdicts))
    settings = {"profile": "official", "round": round_.name, "model": workload.model}
    output = {
        "settings": {**settings, "precision": "bf16", "engine_args": {}},
        "engine": {"name": "vLLM", "version": "0.32.0", "stand_in": False},
        "dataset": {"name": "cnn_eval.json", "samples": benchmark.samples, "sha256": "0"},
        "prompts_sha256": "0",
        "system": dict(describe_system()),
    }
    config(output)
    folder.write("config.json", output)
    of_run = {"benchmark": benchmark.id, "scenario": scenario.name, "status": "complete"}
    meta(of_run)
    content: dict[str, Any] = {"meta": of_run}
    summary(content)
    folder.write("summary.json", content)
    folder.record_checksums()
    return folder.path


def write_results(results_dir: Path, *benchmarks: Benchmark, **changes: Any) -> list[Path]:
    """A result of each scenario; `changes`: as in `write_result`."""
    return [write_result(results_dir, b, s, **changes) for b in benchmarks for s in b.scenarios]


def write_system(folder: Path, name: str = "1x Made Up") -> Path:
    """Write system.json without what the command says itself; returns it."""
    described = system_fields() | {"system_name": name, "status": "available"}
    for said_by_the_command in ("submitter", "division", "system_type"):
        described.pop(said_by_the_command)
    path = folder / "system.json"
    path.write_text(json.dumps(described))
    return path


def submission_words(
    results: Sequence[Path | str], system: Path, out: Path, **more: str
) -> list[str]:
    """What the command is called with. `more`: options that differ."""
    options = {"--submitter": "Someone", "--system": str(system), "--division": "closed"}
    options |= {"--round": "v6.1", "--out": str(out)} | more
    words = [word for pair in options.items() for word in pair]
    return ["submission", "--results", *map(str, results), *words]


def failed_rules(root: Path) -> dict[str, list[str]]:
    return {j.name: j.failed_rules for j in judge_folder(root) if j.failed_rules}


def files(root: Path) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}


SCENARIOS = ("Offline", "Server", "Interactive")


def client_folders(root: Path, name: str = "llama3.1-8b") -> dict[str, Path]:
    """The client's folder of each scenario of a benchmark."""
    submission = write_client_submission(root / "made", name, SCENARIOS, with_events="Server")
    folders = {}
    for scenario in SCENARIOS:
        folders[scenario] = root / f"client-{scenario.lower()}"
        shutil.move(submission / "results/box" / name / scenario, folders[scenario])
        for file in ("measurements.json", "README.md"):
            (folders[scenario] / file).unlink()
    shutil.rmtree(root / "made")
    return folders


def submit(root: Path, *results: str, round_: str = "v6.1", measurements: bool = True) -> int:
    """Build <root>/tree of results; the command's exit status."""
    weights = root / "weights.json"
    weights.write_text(json.dumps(dict.fromkeys(MEASUREMENT_FIELDS, "made up")))
    more = {"--measurements": str(weights)} if measurements else {}
    words = submission_words(
        results, write_system(root, "box"), root / "tree", **{"--round": round_}, **more
    )
    return main(words)
