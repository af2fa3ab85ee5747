"""Compares the official checks of power measurements with the suite's own rules, rule by rule.

The checks are the submission checker's own (github.com/mlcommons/inference), run in a separate
process; none of their code is here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evidence.verdicts import CHECKER
from meta_tests.features.submission_check.power_damages import facts_of
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.submission_check.power_measurement import power_figures
from mlperf_suite.rules import judge

Verdicts = dict[str, Any]
"""By the suite's rule, whether it passes; None if the official check did not get to it. Also the
figures `metric` and `efficiency`, None if there are none."""
_OFFICIAL = """
import json, logging, os, sys, types
sys.path.insert(0, sys.argv[1])
from submission_checker.checks import power_check
from submission_checker.checks.power import power_checker as power
from submission_checker.parsers.loadgen_parser import LoadgenParser
logging.disable(logging.CRITICAL)
sys.stderr = open(os.devnull, "w")

def holds(check):
    return power.check_with_logging("", check)[0]

def passes(check):
    try:
        return bool(check())
    except Exception:
        return False

for folder, scenario, performance in json.load(open(sys.argv[2])):
    verdicts = dict.fromkeys((
        "power_sources", "power_commands", "power_uuids", "power_session_name", "power_phases",
        "power_messages", "power_checksums", "power_ptd_log", "power_ptd_config", "power_debug",
    ))
    try:
        client = power.SessionDescriptor(os.path.join(folder, "power/client.json"))
        server = power.SessionDescriptor(os.path.join(folder, "power/server.json"))
        verdicts["power_descriptors"] = True
    except Exception:
        verdicts["power_descriptors"] = False
    if verdicts["power_descriptors"]:
        verdicts |= {
            "power_sources": holds(lambda: power.sources_check(client))
            and holds(lambda: power.sources_check(server)),
            "power_commands": holds(lambda: power.ptd_messages_check(server)),
            "power_uuids": holds(lambda: power.uuid_check(client, server)),
            "power_session_name": holds(lambda: power.session_name_check(client, server)),
            "power_phases": holds(lambda: power.phases_check(client, server, folder)),
            "power_messages": holds(lambda: power.messages_check(client, server)),
            "power_ptd_log": holds(lambda: power.check_ptd_logs(server, client, folder)),
            "power_ptd_config": holds(lambda: power.check_ptd_config(server)),
            "power_debug": holds(lambda: power.debug_check(server)),
            # Last, since it takes entries out of what was read.
            "power_checksums": holds(lambda: power.results_check(server, client, folder)),
        }
    try:
        log = LoadgenParser(os.path.join(folder, "run_1/mlperf_log_detail.txt"))
    except Exception:
        log = None
    data = {
        "scenario": scenario, "power_dir_path": os.path.join(folder, "power"),
        "perf_path": os.path.join(folder, "run_1/mlperf_log_detail.txt"),
        "performance_metric": performance,
    }
    logs = types.SimpleNamespace(performance_log=log, loader_data=data)
    check = power_check.PowerCheck(
        logging.getLogger(), folder, types.SimpleNamespace(skip_power_check=False), logs
    )
    verdicts["power_files"] = passes(check.required_files_check)
    verdicts["power_samples"] = passes(check.get_power_metric_check)
    verdicts["metric"] = data.get("power_metric") if verdicts["power_samples"] else None
    verdicts["efficiency"] = data.get("avg_power_efficiency") if verdicts["power_samples"] else None
    print(json.dumps(verdicts), flush=True)
"""


def official(checkout: Path, folders: Iterable[tuple[Path, Scenario]]) -> list[Verdicts]:
    """The official checks' verdicts on each `performance` folder of a scenario."""
    rows = [
        (str(folder), scenario.name, facts_of(folder, scenario).detail[scenario.metric])
        for folder, scenario in folders
    ]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "folders.json"
        file.write_text(json.dumps(rows))
        command = [sys.executable, "-c", _OFFICIAL, str(checkout / CHECKER), str(file)]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]


def own(performance: Path, scenario: Scenario) -> Verdicts:
    """The verdicts of the suite's rules."""
    facts = facts_of(performance, scenario)
    verdicts: Verdicts = {verdict.rule: verdict.passed for verdict in judge(facts)}
    figures = power_figures(facts) if verdicts["power_samples"] else None
    verdicts["metric"] = figures.metric if figures else None
    verdicts["efficiency"] = figures.efficiency if figures else None
    return verdicts


def differences(checker: Verdicts, suite: Verdicts) -> list[str]:
    """Where both have a verdict and they differ, a few words each."""
    words = []
    for name, official_value in checker.items():
        value = suite[name]
        alike = value == official_value
        if isinstance(official_value, float) and isinstance(value, float):
            alike = abs(value - official_value) <= 1e-9 * abs(official_value)
        # The checker skips checks only if the measurement fails as a whole.
        if not alike and not (official_value is None and name.startswith("power_")):
            words.append(f"{name}: {official_value} there, {value} here")
    return words
