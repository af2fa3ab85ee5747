"""Damages to a submission's files, and exactly those rules of the suite that detect each.

What a single value of a log breaks is in rule_breaks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from meta_tests.tampering.edits import (
    Change,
    Home,
    Tampering,
    bytes_edited,
    json_edited,
    removed,
    replaced,
    seen_by,
    system_field,
    text_edited,
)
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY


def folder_added(path: Callable[[Home], Path]) -> Change:
    """Make an empty folder."""
    return lambda home: path(home).mkdir()


def emptied(path: Callable[[Home], Path]) -> Change:
    return text_edited(path, lambda text: "")


def measurement_emptied(name: str) -> Change:
    def path(home: Home) -> Path:
        (file,) = home.measurements("Server").glob("*.json")
        return file

    return json_edited(path, lambda content: content.update({name: ""}))


def accuracy_txt(home: Home) -> Path:
    return home.accuracy("Server") / "accuracy.txt"


def audit_log(home: Home) -> Path:
    return home.test06("Server") / "accuracy" / ACCURACY


def measurements(home: Home) -> Path:
    return home.measurements("Server") / "measurements.json"


SINGLE = "llama3.1-8b-edge/SingleStream"
PUBLISHED: dict[str, Tampering] = {
    "no performance detail log (Server)": seen_by(
        removed(lambda home: home.performance("Server") / DETAIL),
        "required_files same_system result_valid log_is_whole test_mode result_reported seeds "
        "equal_issue_mode token_latencies loadgen_unmodified min_duration "
        "performance_sample_count early_stopping min_queries ttft_limit tpot_limit "
        "latency_targets target_percentile",
    ),
    "no performance summary (Server)": seen_by(
        removed(lambda home: home.performance("Server") / SUMMARY), "required_files"
    ),
    "no accuracy detail log (Offline)": seen_by(
        removed(lambda home: home.accuracy("Offline") / DETAIL),
        "required_files same_system accuracy_log_is_whole accuracy_test_mode "
        "accuracy_every_sample accuracy_whole_dataset accuracy_loadgen_unmodified",
    ),
    "no accuracy.txt (Offline)": seen_by(
        removed(lambda home: home.accuracy_txt("Offline")),
        "required_files accuracy_every_sample accuracy_hash accuracy_rouge1 accuracy_rouge2 "
        "accuracy_rougel accuracy_rougelsum accuracy_gen_len",
    ),
    "no TEST06 (Interactive)": seen_by(
        removed(lambda home: home.test06("Interactive")),
        "required_files test06_log_is_whole test06_sample_count test06_first_token test06_eos "
        "test06_token_count test06_verified",
    ),
    "no Offline": seen_by(
        removed(lambda home: home.place("results", "Offline")), "required_scenarios"
    ),
    "no SingleStream": seen_by(
        removed(lambda home: home.place("results", SINGLE)), "required_scenarios"
    ),
    "no README.md (Server)": seen_by(
        removed(lambda home: home.measurements("Server") / "README.md"), "required_files"
    ),
    "no user.conf (Server)": seen_by(
        removed(lambda home: home.measurements("Server") / "user.conf"), "required_files"
    ),
    "an empty user.conf (Server)": seen_by(
        emptied(lambda home: home.measurements("Server") / "user.conf"), "required_files"
    ),
    "weight_data_types empty (Server)": seen_by(
        measurement_emptied("weight_data_types"), "measurements"
    ),
    "no sources": seen_by(
        removed(lambda home: home.path / ("src" if home.layout == "v6" else "code")),
        "required_files",
    ),
    "system: status sold": seen_by(system_field("status", "sold"), "system_description"),
    "system: type mobile": seen_by(system_field("system_type", "mobile"), "system_description"),
    "system: another submitter": seen_by(
        system_field("submitter", "Somebody"), "system_description"
    ),
    "system: the open division": seen_by(system_field("division", "open"), "system_description"),
    "system: cooling empty": seen_by(system_field("cooling", ""), "system_fields"),
    "system: no field hw_notes": seen_by(system_field("hw_notes", None), "system_fields"),
    "system: behind a network": seen_by(
        system_field("is_network", "true"), "system_description system_fields"
    ),
    "system: sw_notes are a number": seen_by(system_field("sw_notes", 8), "system_fields"),
    "system: half a character in its name": seen_by(
        system_field("system_name", "\ud800"), "system_description system_fields"
    ),
    "a hidden folder beside the submitter": seen_by(
        folder_added(lambda home: home.path.parent / ".git"), "system_has_results"
    ),
    "a hidden folder beside the system": seen_by(
        folder_added(lambda home: home.path / "results" / ".git"), "system_has_results"
    ),
    "a hidden folder beside the benchmark": seen_by(
        folder_added(lambda home: home.path / "results" / home.system / ".git"), "benchmark_known"
    ),
    "a hidden folder beside the scenario": seen_by(
        folder_added(lambda home: home.place("results", "Offline").parent / ".git"),
        "scenarios_known",
    ),
    "accuracy.txt is no UTF-8 (Server)": seen_by(
        bytes_edited(lambda home: home.accuracy_txt("Server"), lambda raw: raw + b"\xff\n"),
        "required_files",
    ),
    "no system description": seen_by(
        removed(lambda home: home.system_json), "required_files system_description system_fields"
    ),
}
"""Those that docs/submission.md compares with the official checker's verdicts."""
FURTHER: dict[str, Tampering] = {
    "a score said twice": seen_by(
        replaced("'rouge2'", "'rouge2': 99.0, 'rouge2'", accuracy_txt), "accuracy_rouge2"
    ),
    "a score that is none": seen_by(
        replaced("'rougeL': 24.4957", "'rougeL': nan", accuracy_txt), "accuracy_rougel"
    ),
    "a part of the data": seen_by(
        replaced("'gen_num': 13368.0", "'gen_num': 5000", accuracy_txt), "accuracy_every_sample"
    ),
    "another system in accuracy": seen_by(
        replaced("PySUT", "OtherSUT", lambda home: home.accuracy("Server") / DETAIL), "same_system"
    ),
    "a system description that is not JSON": seen_by(
        replaced("{", "", lambda home: home.system_json), "system_description system_fields"
    ),
    "an edge system": seen_by(system_field("system_type", "edge"), "system_description"),
    "measurements that are not JSON": seen_by(replaced("{", "[", measurements), "measurements"),
    "TEST06's answers are cut": seen_by(
        replaced("]", "", audit_log),
        "test06_log_is_whole test06_sample_count test06_first_token test06_eos test06_token_count",
    ),
    "accelerators twice in the system's description": seen_by(
        replaced(r"^\{", '{"accelerators_per_node": "1", ', lambda home: home.system_json, 1),
        "system_description system_fields",
    ),
    "the type of weights twice in the measurements": seen_by(
        replaced(r"^\{", '{"weight_data_types": "fp4", ', measurements, 1), "measurements"
    ),
    "TEST06: another file beside it says that it failed": seen_by(
        lambda home: (home.test06("Server") / "verify_performance.txt").write_text("TEST FAIL\n"),
        "test06_verified",
    ),
}
