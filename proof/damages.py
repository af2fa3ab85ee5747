"""A submission tree damaged in many ways: the official checker's verdict beside the suite's.

    python -m proof.damages TREE --checker INFERENCE --round v6.1

TREE is a closed tree that both accept, of llama3.1-8b and llama3.1-8b-edge; INFERENCE a checkout
of github.com/mlcommons/inference. Prints a table, one row for each damage to a copy of the tree.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY

CHECKER = Path("tools/submission")
LOOKS_OK = "SUMMARY: submission looks OK"
_CHECK = re.compile(r"ERROR\] Some (.+?) Checks failed for")
_EXCEPTION = re.compile(r"Running (\w+) in \w+$")
_MOST_RULES = 5


@dataclass(frozen=True, slots=True)
class Home:
    """<division>/<submitter> of a tree, and where its files lie in the round's layout."""

    path: Path
    layout: str

    @property
    def system(self) -> str:
        return next((self.path / "results").iterdir()).name

    def place(self, branch: str, scenario: str) -> Path:
        benchmark = "llama3.1-8b"
        if "/" in scenario:
            benchmark, scenario = scenario.split("/")
        of = "results" if self.layout == "v6" else branch
        return self.path / of / self.system / benchmark / scenario

    def performance(self, scenario: str) -> Path:
        return self.place("results", scenario) / "performance" / "run_1"

    def accuracy(self, scenario: str) -> Path:
        return self.place("results", scenario) / "accuracy"

    def test06(self, scenario: str) -> Path:
        return self.place("compliance", scenario) / "TEST06"

    def measurements(self, scenario: str) -> Path:
        return self.place("measurements", scenario)

    @property
    def system_json(self) -> Path:
        return self.path / "systems" / f"{self.system}.json"


Damage = Callable[[Home], object]


def _log(key: str, value: object, scenario: str, *, accuracy: bool = False) -> Damage:
    """Another value of a key in a detail log."""

    def damage(home: Home) -> None:
        folder = home.accuracy(scenario) if accuracy else home.performance(scenario)
        path = folder / DETAIL
        lines = path.read_text(encoding="utf-8").splitlines()
        changed = 0
        for number, line in enumerate(lines):
            entry = json.loads(line.removeprefix(":::MLLOG "))
            if entry["key"] == key:
                entry["value"] = value
                lines[number] = f":::MLLOG {json.dumps(entry)}"
                changed += 1
        if not changed:
            raise ValueError(f"no {key} in {path}")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return damage


def _replaced(pattern: str, new: str, path: Callable[[Home], Path]) -> Damage:
    """Another text in a file, which has to hold the old one."""

    def damage(home: Home) -> None:
        text = path(home).read_text(encoding="utf-8")
        changed, count = re.subn(pattern, new, text)
        if not count:
            raise ValueError(f"no {pattern} in {path(home)}")
        path(home).write_text(changed, encoding="utf-8")

    return damage


def _score(name: str, factor: float, scenario: str) -> Damage:
    """A score of accuracy.txt times a factor."""

    def damage(home: Home) -> None:
        path = home.accuracy(scenario) / "accuracy.txt"
        text = path.read_text(encoding="utf-8")
        found = re.search(rf"'{name}': ([\d.]+)", text)
        if found is None:
            raise ValueError(f"no {name} in {path}")
        value = float(found[1]) * factor
        shown = f"{value:.0f}" if name == "gen_len" else f"{value:.4f}"
        path.write_text(text.replace(found[0], f"'{name}': {shown}"), encoding="utf-8")

    return damage


def _gone(path: Callable[[Home], Path]) -> Damage:
    def damage(home: Home) -> None:
        target = path(home)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return damage


def _empty(path: Callable[[Home], Path]) -> Damage:
    return lambda home: path(home).write_text("")


def _system(name: str, value: object) -> Damage:
    def damage(home: Home) -> None:
        content: dict[str, Any] = json.loads(home.system_json.read_text(encoding="utf-8"))
        if value is None:
            del content[name]
        else:
            content[name] = value
        home.system_json.write_text(json.dumps(content), encoding="utf-8")

    return damage


def _measurements(name: str) -> Damage:
    def damage(home: Home) -> None:
        (path,) = home.measurements("Server").glob("*.json")
        content = json.loads(path.read_text(encoding="utf-8"))
        content[name] = ""
        path.write_text(json.dumps(content), encoding="utf-8")

    return damage


def _few_samples(home: Home) -> None:
    _log("qsl_reported_total_count", 1000, "Server", accuracy=True)(home)
    if home.layout == "v6":
        # LoadGen says it a second time since 6.0.
        _log("effective_accuracy_sample_count", 1000, "Server", accuracy=True)(home)


def _long_log(home: Home) -> None:
    path = home.accuracy("Offline") / ACCURACY
    path.write_bytes(path.read_bytes() * 2)


def _cut_log(home: Home) -> None:
    path = home.performance("Server") / DETAIL
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


SINGLE = "llama3.1-8b-edge/SingleStream"
EDGE_OFFLINE = "llama3.1-8b-edge/Offline"
DAMAGES: dict[str, Damage] = {
    "nothing: the tree as it was built": lambda home: None,
    "a wrong seed: qsl_rng_seed 1 (Offline)": _log("effective_qsl_rng_seed", 1, "Offline"),
    "a wrong seed: schedule_rng_seed 1 (Server)": _log("effective_schedule_rng_seed", 1, "Server"),
    "min duration 60,000 ms (Server)": _log("effective_min_duration_ms", 60_000, "Server"),
    "min duration 60,000 ms (SingleStream)": _log("effective_min_duration_ms", 60_000, SINGLE),
    "result INVALID (Offline)": _log("result_validity", "INVALID", "Offline"),
    "performance sample count 1,000 (Interactive)": _log(
        "effective_performance_sample_count", 1000, "Interactive"
    ),
    "samples per query 1,000 (Offline)": _log("effective_samples_per_query", 1000, "Offline"),
    "samples per query 1,000 (edge Offline)": _log(
        "effective_samples_per_query", 1000, EDGE_OFFLINE
    ),
    "token latencies off (Server)": _log("requested_use_token_latencies", False, "Server"),
    "equal issue mode off (Server)": _log(
        "effective_sample_concatenate_permutation", False, "Server"
    ),
    "early stopping not met (Server)": _log("early_stopping_met", False, "Server"),
    "early stopping not met (SingleStream)": _log("early_stopping_met", False, SINGLE),
    "p99 TTFT 2,100 ms, limit 2,000 (Server)": _log(
        "result_first_token_99.00_percentile_latency_ns", 2_100_000_000, "Server"
    ),
    "p99 TPOT 110 ms, limit 100 (Server)": _log(
        "result_time_per_output_token_99.00_percentile_ns", 110_000_000, "Server"
    ),
    "p99 TTFT 600 ms, limit 500 (Interactive)": _log(
        "result_first_token_99.00_percentile_latency_ns", 600_000_000, "Interactive"
    ),
    "p99 TPOT 35 ms, limit 30 (Interactive)": _log(
        "result_time_per_output_token_99.00_percentile_ns", 35_000_000, "Interactive"
    ),
    "performance log cut in half (Server)": _cut_log,
    "no performance detail log (Server)": _gone(lambda home: home.performance("Server") / DETAIL),
    "no performance summary (Server)": _gone(lambda home: home.performance("Server") / SUMMARY),
    "no accuracy detail log (Offline)": _gone(lambda home: home.accuracy("Offline") / DETAIL),
    "no accuracy.txt (Offline)": _gone(lambda home: home.accuracy("Offline") / "accuracy.txt"),
    "accuracy over 1,000 samples (Server)": _few_samples,
    "rouge1 times 0.9 (Offline)": _score("rouge1", 0.9, "Offline"),
    "rouge2 times 0.9 (Server)": _score("rouge2", 0.9, "Server"),
    "rougeL times 0.9 (edge Offline)": _score("rougeL", 0.9, EDGE_OFFLINE),
    "rougeLsum times 0.9 (SingleStream)": _score("rougeLsum", 0.9, SINGLE),
    "gen_len times 1.2 (Offline)": _score("gen_len", 1.2, "Offline"),
    "gen_len times 0.8 (Offline)": _score("gen_len", 0.8, "Offline"),
    "no hash in accuracy.txt (Offline)": _replaced(
        r"\nhash=\w+\n", "\n", lambda home: home.accuracy("Offline") / "accuracy.txt"
    ),
    "accuracy log not cut (Offline)": _long_log,
    "no TEST06 (Interactive)": _gone(lambda home: home.test06("Interactive")),
    "TEST06 failed: first token (Server)": _replaced(
        "First token check pass: True",
        "First token check pass: False",
        lambda home: home.test06("Server") / "verify_accuracy.txt",
    ),
    "TEST06 failed: EOS (Offline)": _replaced(
        "EOS check pass: True",
        "EOS check pass: False",
        lambda home: home.test06("Offline") / "verify_accuracy.txt",
    ),
    "TEST06 failed: sample length (Server)": _replaced(
        "Sample length check pass: True",
        "Sample length check pass: False",
        lambda home: home.test06("Server") / "verify_accuracy.txt",
    ),
    "no Offline": _gone(lambda home: home.place("results", "Offline")),
    "no SingleStream": _gone(lambda home: home.place("results", SINGLE)),
    "no README.md (Server)": _gone(lambda home: home.measurements("Server") / "README.md"),
    "no user.conf (Server)": _gone(lambda home: home.measurements("Server") / "user.conf"),
    "an empty user.conf (Server)": _empty(lambda home: home.measurements("Server") / "user.conf"),
    "weight_data_types empty (Server)": _measurements("weight_data_types"),
    "no sources": _gone(lambda home: home.path / ("src" if home.layout == "v6" else "code")),
    "system: status sold": _system("status", "sold"),
    "system: type mobile": _system("system_type", "mobile"),
    "system: another submitter": _system("submitter", "Somebody"),
    "system: the open division": _system("division", "open"),
    "system: cooling empty": _system("cooling", ""),
    "system: no field hw_notes": _system("hw_notes", None),
    "system: behind a network": _system("is_network", "true"),
    "no system description": _gone(lambda home: home.system_json),
}


def official_verdict(root: Path, checker: Path, round_: Round) -> str:
    """What the official checker says of a tree, in a few words."""
    command = [sys.executable, "-m", "submission_checker.main", "--input", str(root)]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--version", round_.name, "--csv", str(Path(folder) / "summary.csv")]
        done = subprocess.run(
            command, cwd=checker / CHECKER, capture_output=True, text=True, check=False
        )
    said = done.stdout + done.stderr
    if LOOKS_OK in said:
        return "passes"
    if "SUMMARY:" not in said:
        return f"traceback ({said.strip().splitlines()[-1].split(':')[0]})"
    failed = {name.removesuffix(" checks").removesuffix(" check") for name in _CHECK.findall(said)}
    raised = {m[1] for line in said.splitlines() if (m := _EXCEPTION.search(line))}
    by_exception = f", by an exception in {', '.join(sorted(raised))}" if raised else ""
    return f"fails: {', '.join(sorted(failed))}{by_exception}"


def own_verdict(root: Path, round_: Round) -> str:
    """The rules that the suite finds broken in a tree."""
    broken = dict.fromkeys(rule for j in judge_folder(root, round_) for rule in j.failed_rules)
    # It follows from every failed accuracy run, and says nothing more.
    broken.pop("accuracy_passed", None)
    if not broken:
        return "passes"
    shown = [f"`{rule}`" for rule in list(broken)[:_MOST_RULES]]
    more = f" and {len(broken) - _MOST_RULES} more" if len(broken) > _MOST_RULES else ""
    return ", ".join(shown) + more


def compare(tree: Path, checker: Path, round_: Round) -> list[tuple[str, str, str]]:
    """For each damage its name, the official verdict and the suite's."""
    rows = []
    for name, damage in DAMAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "tree"
            shutil.copytree(tree, copy)
            (home,) = (copy / "closed").iterdir()
            damage(Home(home, round_.layout))
            rows.append((name, official_verdict(copy, checker, round_), own_verdict(copy, round_)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--checker", type=Path, required=True)
    parser.add_argument("--round", choices=tuple(ROUNDS), required=True)
    arguments = parser.parse_args()
    print("| damage | official checker | here: the rules that fail |\n|---|---|---|")
    for row in compare(arguments.tree, arguments.checker, ROUNDS[arguments.round]):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
