"""Damages to a submission's files, and exactly those rules of the suite that detect each.

What a single value of a log breaks is in meta_tests/tampering/rule_breaks.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from evidence.tree_edits import Change, Home, Tampering, seen_by, system_field
from meta_tests.tampering.edits import bytes_edited, removed, replaced, text_edited
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY

Where = Callable[[Home], Path]


def hidden_folder(beside: Where) -> Change:
    return lambda home: beside(home).with_name(".git").mkdir()


def server_file(name: str) -> Where:
    """A file of the measurements of Server."""
    return lambda home: home.measurements("Server") / name


def system_json(home: Home) -> Path:
    return home.system_json


def system(rules: str, name: str, value: object) -> Tampering:
    return seen_by(system_field(name, value), rules)


def gone(rules: str, path: Where) -> Tampering:
    return seen_by(removed(path), rules)


def weight_types_emptied(home: Home) -> None:
    (file,) = home.measurements("Server").glob("*.json")
    file.write_text(re.sub(r'("weight_data_types": )"[^"]*"', r'\1""', file.read_text()))


def accuracy_txt(home: Home) -> Path:
    return home.accuracy_txt("Server")


def audit_log(home: Home) -> Path:
    return home.test06("Server") / "accuracy" / ACCURACY


SINGLE = "llama3.1-8b-edge/SingleStream"
OF_SYSTEM = "system_description system_fields"
OF_ANSWERS = "test06_log_is_whole test06_sample_count test06_first_token test06_eos"
PUBLISHED: dict[str, Tampering] = {
    "no performance detail log (Server)": gone(
        "required_files log_is_whole",
        lambda home: home.performance("Server") / DETAIL,
    ),
    "no performance summary (Server)": gone(
        "required_files", lambda home: home.performance("Server") / SUMMARY
    ),
    "no accuracy detail log (Offline)": gone(
        "required_files accuracy_log_is_whole",
        lambda home: home.accuracy("Offline") / DETAIL,
    ),
    "no accuracy.txt (Offline)": gone(
        "required_files",
        lambda home: home.accuracy_txt("Offline"),
    ),
    "no TEST06 (Interactive)": gone(
        f"required_files {OF_ANSWERS} test06_token_count test06_verified",
        lambda home: home.test06("Interactive"),
    ),
    "no Offline": gone("required_scenarios", lambda home: home.place("results", "Offline")),
    "no SingleStream": gone("required_scenarios", lambda home: home.place("results", SINGLE)),
    "no README.md (Server)": gone("required_files", server_file("README.md")),
    "no user.conf (Server)": gone("required_files", server_file("user.conf")),
    "an empty user.conf (Server)": seen_by(
        text_edited(server_file("user.conf"), lambda _: ""), "required_files"
    ),
    "weight_data_types empty (Server)": seen_by(weight_types_emptied, "measurements"),
    "no sources": gone(
        "required_files", lambda home: home.path / ("src" if home.layout == "v6" else "code")
    ),
    "system: status sold": system("system_description", "status", "sold"),
    "system: type mobile": system("system_description", "system_type", "mobile"),
    "system: another submitter": system("system_description", "submitter", "Somebody"),
    "system: the open division": system("system_description", "division", "open"),
    "system: cooling empty": system("system_fields", "cooling", ""),
    "system: no field hw_notes": system("system_fields", "hw_notes", None),
    "system: behind a network": system(OF_SYSTEM, "is_network", "true"),
    "system: sw_notes are a number": system("system_fields", "sw_notes", 8),
    "system: half a character in its name": system(OF_SYSTEM, "system_name", "\ud800"),
    "a hidden folder beside the submitter": seen_by(
        hidden_folder(lambda home: home.path), "system_has_results"
    ),
    "a hidden folder beside the system": seen_by(
        hidden_folder(lambda home: home.path / "results" / home.system), "system_has_results"
    ),
    "a hidden folder beside the benchmark": seen_by(
        hidden_folder(lambda home: home.place("results", "Offline").parent), "benchmark_known"
    ),
    "a hidden folder beside the scenario": seen_by(
        hidden_folder(lambda home: home.place("results", "Offline")), "scenarios_known"
    ),
    "accuracy.txt is no UTF-8 (Server)": seen_by(
        bytes_edited(accuracy_txt, lambda raw: raw + b"\xff\n"), "required_files"
    ),
    "no system description": gone(f"required_files {OF_SYSTEM}", system_json),
}
"""Those that docs/submission.md compares with the official checker's verdicts."""
FURTHER: dict[str, Tampering] = {
    "a score said twice": seen_by(
        replaced("'rouge2'", "'rouge2': 99.0, 'rouge2'", accuracy_txt), "accuracy_rouge2"
    ),
    "a part of the data": seen_by(
        replaced("'gen_num': 13368.0", "'gen_num': 5000", accuracy_txt), "accuracy_every_sample"
    ),
    "another system in accuracy": seen_by(
        replaced("PySUT", "OtherSUT", lambda home: home.accuracy("Server") / DETAIL), "same_system"
    ),
    "a system description that is not JSON": seen_by(replaced("{", "", system_json), OF_SYSTEM),
    "an edge system": system("system_description", "system_type", "edge"),
    "measurements that are not JSON": seen_by(
        replaced("{", "[", server_file("measurements.json")), "measurements"
    ),
    "TEST06's answers are cut": seen_by(
        replaced("]", "", audit_log), f"{OF_ANSWERS} test06_token_count"
    ),
    "accelerators twice in the system's description": seen_by(
        replaced(r"^\{", '{"accelerators_per_node": "1", ', system_json, 1), OF_SYSTEM
    ),
    "TEST06: another file beside it says that it failed": seen_by(
        lambda home: (home.test06("Server") / "verify_performance.txt").write_text("TEST FAIL\n"),
        "test06_verified",
    ),
}
