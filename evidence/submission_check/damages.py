"""Damage a submission tree in many ways and compare the official verdicts with the suite's.

    python -m evidence.submission_check.damages --checker INFERENCE
    python -m evidence.submission_check.damages TREE --checker INFERENCE --round v6.1

The first damages a made-up tree of each benchmark and writes docs/evidence/damaged-trees.md again.
TREE is a closed tree that both accept, of llama3.1-8b and llama3.1-8b-edge, or of the benchmark
that --benchmark names; INFERENCE is a checkout of github.com/mlcommons/inference. Prints a table
with one row for each damage to a copy of the tree.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evidence.log_edits import answers_edited, is_, log_values
from evidence.submission_check.submission_damages import PUBLISHED, SINGLE
from evidence.tables import PAGES, write_cells
from evidence.tree_edits import Change, Home, Tampering, seen_by, system_field
from evidence.verdicts import copies, official_verdict, own_verdict
from meta_tests.features.submission_check.made_submissions import offered_in, write_submission
from meta_tests.judging.trees import broken_rules
from meta_tests.made_runs import P99
from meta_tests.tampering.edits import bytes_edited, removed, replaced, text_edited
from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.catalog import BENCHMARKS, judged_in_trees
from mlperf_suite.benchmarks.definition import COUNTED_IN_A_SENTENCE, Benchmark, limit_name
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL
from mlperf_suite.rules.accuracy_rules import gate_name


def log_value(key: str, value: object, scenario: str, *, accuracy: bool = False) -> Change:
    """Change the value of a key in a detail log."""

    def folder(home: Home) -> Path:
        return home.accuracy(scenario) if accuracy else home.performance(scenario)

    return log_values(folder, {re.escape(key): is_(value)})


def score_times(name: str, factor: float, scenario: str, most: float = math.inf) -> Change:
    """Multiply a score of accuracy.txt, or `most` if that is less, by a factor."""

    def edit(text: str) -> str:
        # whisper's and qwen3-vl's own lines have other forms.
        forms = rf"'{name}': |\"{name}\": " + (r"|accuracy=" if name == "word_accuracy" else "")
        score = re.search(rf"(?:{forms})([\d.]+)", text)
        if score is None:
            raise LookupError(f"no {name}")
        # A score at its ceiling of 100 is far above its gate.
        value = min(float(score[1]), most) * factor
        figure = f"{value:.0f}" if name == "gen_len" else f"{value:.4f}"
        return text.replace(score[0], score[0].removesuffix(score[1]) + figure)

    return text_edited(lambda home: home.accuracy_txt(scenario), edit)


def _unverified(check: str, scenario: str) -> Tampering:
    """A check of TEST06's official script failed."""
    line = f"{check} check pass: "

    def file(home: Home) -> Path:
        return home.test06(scenario) / "verify_accuracy.txt"

    return seen_by(replaced(f"{line}True", f"{line}False", file), "test06_verified")


def _few_samples(home: Home) -> None:
    log_value("qsl_reported_total_count", 1000, "Server", accuracy=True)(home)
    if home.layout == "v6":
        # Since 6.0 LoadGen logs it a second time.
        log_value("effective_accuracy_sample_count", 1000, "Server", accuracy=True)(home)


EDGE_OFFLINE = "llama3.1-8b-edge/Offline"
DAMAGES: dict[str, Tampering] = {
    "nothing: the tree as it was built": seen_by(lambda home: None),
    "a wrong seed: qsl_rng_seed 1 (Offline)": seen_by(
        log_value("effective_qsl_rng_seed", 1, "Offline"), "seeds"
    ),
    "a wrong seed: schedule_rng_seed 1 (Server)": seen_by(
        log_value("effective_schedule_rng_seed", 1, "Server"), "seeds"
    ),
    "min duration 60,000 ms (Server)": seen_by(
        log_value("effective_min_duration_ms", 60_000, "Server"), "min_duration"
    ),
    "min duration 60,000 ms (SingleStream)": seen_by(
        log_value("effective_min_duration_ms", 60_000, SINGLE), "min_duration"
    ),
    "result INVALID (Offline)": seen_by(
        log_value("result_validity", "INVALID", "Offline"), "result_valid"
    ),
    "performance sample count 1,000 (Interactive)": seen_by(
        log_value("effective_performance_sample_count", 1000, "Interactive"),
        "performance_sample_count",
    ),
    "samples per query 1,000 (Offline)": seen_by(
        log_value("effective_samples_per_query", 1000, "Offline"), "offline_samples_per_query"
    ),
    "samples per query 1,000 (edge Offline)": seen_by(
        log_value("effective_samples_per_query", 1000, EDGE_OFFLINE), "offline_samples_per_query"
    ),
    "token latencies off (Server)": seen_by(
        log_value("requested_use_token_latencies", False, "Server"), "token_latencies"
    ),
    "equal issue mode off (Server)": seen_by(
        log_value("effective_sample_concatenate_permutation", False, "Server"), "equal_issue_mode"
    ),
    "early stopping not met (Server)": seen_by(
        log_value("early_stopping_met", False, "Server"), "early_stopping"
    ),
    "early stopping not met (SingleStream)": seen_by(
        log_value("early_stopping_met", False, SINGLE), "early_stopping"
    ),
    "p99 TTFT 2,100 ms, limit 2,000 (Server)": seen_by(
        log_value(P99["ttft"], 2_100_000_000, "Server"), "ttft_limit"
    ),
    "p99 TPOT 110 ms, limit 100 (Server)": seen_by(
        log_value(P99["tpot"], 110_000_000, "Server"), "tpot_limit"
    ),
    "p99 TTFT 600 ms, limit 500 (Interactive)": seen_by(
        log_value(P99["ttft"], 600_000_000, "Interactive"), "ttft_limit"
    ),
    "p99 TPOT 35 ms, limit 30 (Interactive)": seen_by(
        log_value(P99["tpot"], 35_000_000, "Interactive"), "tpot_limit"
    ),
    "performance log cut in half (Server)": seen_by(
        bytes_edited(
            lambda home: home.performance("Server") / DETAIL, lambda log: log[: len(log) // 2]
        ),
        "result_valid log_is_whole result_reported early_stopping min_queries ttft_limit "
        "tpot_limit",
    ),
    "accuracy over 1,000 samples (Server)": seen_by(
        _few_samples, "same_system accuracy_every_sample accuracy_whole_dataset"
    ),
    "rouge1 times 0.9 (Offline)": seen_by(
        score_times("rouge1", 0.9, "Offline"), "accuracy_rouge1 accuracy_score_figures"
    ),
    "rouge2 times 0.9 (Server)": seen_by(score_times("rouge2", 0.9, "Server"), "accuracy_rouge2"),
    "rougeL times 0.9 (edge Offline)": seen_by(
        score_times("rougeL", 0.9, EDGE_OFFLINE), "accuracy_rougel"
    ),
    "rougeLsum times 0.9 (SingleStream)": seen_by(
        score_times("rougeLsum", 0.9, SINGLE), "accuracy_rougelsum"
    ),
    "gen_len times 1.2 (Offline)": seen_by(
        score_times("gen_len", 1.2, "Offline"), "accuracy_gen_len"
    ),
    "gen_len times 0.8 (Offline)": seen_by(
        score_times("gen_len", 0.8, "Offline"), "accuracy_gen_len"
    ),
    "no hash in accuracy.txt (Offline)": seen_by(
        replaced(r"\nhash=\w+\n", "\n", lambda home: home.accuracy_txt("Offline")), "accuracy_hash"
    ),
    "accuracy log not cut (Offline)": seen_by(
        bytes_edited(lambda home: home.accuracy("Offline") / ACCURACY, lambda log: log * 2),
        "accuracy_log_is_cut",
    ),
    "TEST06 failed: first token (Server)": _unverified("First token", "Server"),
    "TEST06 failed: EOS (Offline)": _unverified("EOS", "Offline"),
    "TEST06 failed: sample length (Server)": _unverified("Sample length", "Server"),
    'system: is_network "false"': seen_by(system_field("is_network", "false"), "system_fields"),
    "system: is_network false": seen_by(system_field("is_network", False), "system_fields"),
    "system: 8 GPUs a node": seen_by(
        system_field("accelerators_per_node", "8 GPUs"), "system_fields"
    ),
    "system: 8, 4 accelerators a node": seen_by(
        system_field("accelerators_per_node", "8, 4"), "system_fields"
    ),
    "system: 1 node": seen_by(system_field("number_of_nodes", "1 node"), "system_fields"),
    **PUBLISHED,
}


def damages_of(benchmark: Benchmark, round_: Round) -> dict[str, Tampering]:
    """The damages to a tree of one benchmark, one for each thing it is judged by in that round."""
    damages = {"nothing: the tree as it was built": seen_by(lambda home: None)}
    for score in benchmark.reference.scores:
        gate = gate_name(score.name)
        factors = (0.9,) if score.unit == "%" else (1.2, 0.8)
        for factor in factors:
            # Relative to the reference, so that a score far above it fails too.
            change = score_times(score.name, factor, "Offline", most=score.value)
            damages[f"{score.name} times {factor} (Offline)"] = seen_by(change, gate)
    samples = {mode: benchmark.samples_of(mode) for mode in ("accuracy", "performance")}
    own_data = samples["accuracy"] != samples["performance"]
    fewer = samples["accuracy"] if own_data else samples["performance"] - 1
    damages[f"performance sample count {fewer:,} (Offline)"] = seen_by(
        log_value("effective_performance_sample_count", fewer, "Offline"),
        "performance_sample_count",
    )
    damages[f"samples per query {fewer:,} (Offline)"] = seen_by(
        log_value("effective_samples_per_query", fewer, "Offline"), "offline_samples_per_query"
    )
    foreign = samples["performance"] if own_data else samples["accuracy"] - 1
    damages[f"accuracy over {foreign:,} samples (Offline)"] = seen_by(
        _accuracy_over(foreign),
        "accuracy_every_sample accuracy_whole_dataset" + ("" if own_data else " same_system"),
    )
    for scenario in offered_in(benchmark, round_.name):
        name = scenario.name
        for limit, limit_ms in scenario.limits.items():
            damages[f"p99 {limit_name(limit)} {limit_ms:,} ms, the limit itself ({name})"] = (
                seen_by(log_value(P99[limit], int(limit_ms * 1e6), name), f"{limit}_limit")
            )
    for audit in benchmark.audits:
        damages |= _audit_damages(audit)
    damages |= _FURTHER.get(benchmark.id, {})
    for name in ("Offline", *(["Server"] if ("Server",) in benchmark.required else [])):
        damages[f"no {name}"] = seen_by(removed(_scenario(name)), "required_scenarios")
    return damages


def _in_accuracy_txt(line: str) -> Change:
    return text_edited(lambda home: home.accuracy_txt("Offline"), lambda text: f"{line}\n{text}")


_FURTHER: dict[str, dict[str, Tampering]] = {
    "gpt-oss-120b": {
        "'tokens_per_sample': 11000.0 in accuracy.txt (Offline)": seen_by(
            _in_accuracy_txt("'tokens_per_sample': 11000.0")
        ),
        "accuracy.txt does not say how many answers were scored (Offline)": seen_by(
            replaced(
                f"{COUNTED_IN_A_SENTENCE}: \\d+\n", "", lambda home: home.accuracy_txt("Offline")
            )
        ),
    }
}
"""Changes that are not a damage by the suite's rules."""


def _scenario(name: str) -> Callable[[Home], Path]:
    return lambda home: home.place("results", name)


def _accuracy_over(samples: int) -> Change:
    def damage(home: Home) -> None:
        for key in ("qsl_reported_total_count", "effective_accuracy_sample_count"):
            with contextlib.suppress(LookupError):  # v5.1's LoadGen says only the first.
                log_value(key, samples, "Offline", accuracy=True)(home)

    return damage


def _audit_damages(audit: Audit) -> dict[str, Tampering]:
    """The damages to an audit's files in Offline, by name."""
    name, mode = audit.name, audit.mode

    def folder(home: Home) -> Path:
        return home.audit(name, "Offline")

    def verification(home: Home) -> Path:
        return folder(home) / audit.verified_in

    # TEST06's rules judge single answers.
    answers = ("sample_count", "eos", "token_count") if mode == "test06" else ("every_sample",)
    rules = (*answers, "log_is_whole", "mean_tokens") if audit.mean_tokens else answers
    wrong = {f"{mode}_{rule}" for rule in (*rules, "log_is_whole", "verified")}
    if audit.compares:
        # Without its files, its other rules have nothing to judge.
        wrong = {f"{mode}_verified", f"{mode}_log_is_whole"}
    damages = {
        f"no {name} (Offline)": seen_by(removed(folder), " ".join(["required_files", *wrong])),
        f"no {audit.verified_in} of {name} (Offline)": seen_by(
            removed(verification), f"required_files {mode}_verified"
        ),
    }
    if mode == "test06":
        return damages
    damages[f"{name} failed (Offline)"] = seen_by(
        replaced("TEST PASS", "TEST FAIL", verification), f"{mode}_verified"
    )
    if audit.also_verified_in:
        second = audit.also_verified_in
        damages[f"no {second} of {name} (Offline)"] = seen_by(
            removed(lambda home: folder(home) / second), f"required_files {mode}_verified"
        )
        return damages
    damages[f"{name}: the answer of one sample is not logged (Offline)"] = seen_by(
        _answers(audit, lambda rows: rows[1:]), f"{mode}_every_sample"
    )
    damages[f"{name}: one sample twice, another never (Offline)"] = seen_by(
        _answers(audit, lambda rows: [rows[1] | {"seq_id": 0}, *rows[1:]]), f"{mode}_every_sample"
    )
    if audit.mean_tokens:
        damages[f"{name}: answers twice as long (Offline)"] = seen_by(
            _answers(audit, lambda rows: [row | {"data": row["data"] * 2} for row in rows]),
            f"{mode}_mean_tokens",
        )
    return damages


def _answers(
    audit: Audit, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> Change:
    """Change the answers in an audit's accuracy log."""
    return answers_edited(
        lambda home: home.audit(audit.name, "Offline") / "accuracy" / ACCURACY, change
    )


def compare(
    tree: Path, checker: Path, round_: Round, benchmark: Benchmark | None = None
) -> Iterator[tuple[str, str, str]]:
    """For each damage, its name, the official verdict and the suite's, without what it finds in the
    tree as it is.

    `benchmark`: the tree's benchmark; by default the tree has both forms of llama3.1-8b.
    """
    damages = DAMAGES if benchmark is None else damages_of(benchmark, round_)
    before = broken_rules(tree, round_)
    for name, copy in copies(tree, damages, round_, (benchmark or LLAMA3_1_8B).id):
        yield name, official_verdict(copy, checker, round_), own_verdict(copy, round_, but=before)


def trees() -> Iterator[tuple[str, Benchmark | None, Round]]:
    """Name, benchmark and round of each tree of the page, as `compare` takes them: the last round
    whose closed division LoadGen's runs alone make up."""
    yield "llama3.1-8b, -edge", None, ROUNDS[LLAMA3_1_8B.rounds[-1]]
    for benchmark in judged_in_trees():
        if benchmark not in (LLAMA3_1_8B, LLAMA3_1_8B_EDGE):
            of_client = {round_ for s in benchmark.of_client for round_ in s.rounds}
            last = [name for name in benchmark.rounds if name not in of_client][-1]
            yield benchmark.id, benchmark, ROUNDS[last]


def _write_tree(root: Path, benchmark: Benchmark | None, round_: Round) -> None:
    if benchmark is not None:
        write_submission(root, benchmark, round_)
        return
    for form in (LLAMA3_1_8B, LLAMA3_1_8B_EDGE):
        system = write_submission(root, form, round_) / "systems" / "box.json"
    system.write_text(system.read_text().replace('"edge"', '"datacenter,edge"'))


def _difference(official: str, own: str) -> str:
    """The column of `_BY_BENCHMARK` in which a damage counts."""
    if official.startswith("traceback"):
        return "traceback"
    if (official == "passes") is (own == "passes"):
        return "same"
    return "seen here" if official == "passes" else "seen there"


def write_page(checker: Path) -> None:
    """Damage a tree of each benchmark, and write what both say into the page."""
    counts, rows = [], []
    for id_, benchmark, round_ in trees():
        with tempfile.TemporaryDirectory() as folder:
            _write_tree(Path(folder), benchmark, round_)
            found = list(compare(Path(folder), checker, round_, benchmark))
        kinds = Counter(_difference(official, own) for _, official, own in found)
        figures = (len(found), *(kinds[name] for name in _DIFFERENCES))
        counts.append((id_, round_.name, *map(str, figures)))
        rows += [(id_, *row) for row in found]
        print(*counts[-1], flush=True)
    totals = (str(sum(map(int, column))) for column in list(zip(*counts, strict=True))[2:])
    write_cells(PAGE, _BY_BENCHMARK, [*counts, ("all", "", *totals)])
    write_cells(PAGE, BY_DAMAGE, rows)


PAGE = PAGES / "damaged-trees.md"
_DIFFERENCES = ("same", "seen here", "traceback", "seen there")
_BY_BENCHMARK = (
    "| tree | round | damages | same verdict | passes officially, fails here | "
    "official traceback, a verdict here | fails officially, passes here |"
)
BY_DAMAGE = "| tree | damage | official checker | here: the rules that fail |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, nargs="?", help="made-up trees, into the page")
    parser.add_argument("--checker", type=Path, required=True)
    parser.add_argument("--round", choices=tuple(ROUNDS), help="the tree's")
    parser.add_argument("--benchmark", choices=tuple(BENCHMARKS), help="the one it is of")
    options = parser.parse_args()
    if options.tree is None:
        return write_page(options.checker)
    benchmark = BENCHMARKS.get(options.benchmark or "")
    print("| damage | official checker | here: the rules that fail |\n|---|---|---|")
    for row in compare(options.tree, options.checker, ROUNDS[options.round], benchmark):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
