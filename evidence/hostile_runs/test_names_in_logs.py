"""Texts and names of folders with logs, as they reach the terminal, JUnit's XML and Allure."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

from meta_tests.judging.trees import V6_1
from meta_tests.made_runs import MadeRun, write_run
from meta_tests.suite_runs import PYTEST
from meta_tests.warm_pytest import run_warm
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.logs import DETAIL

NAMES = {"no UTF-8": b"a\xff\xfe", "escape": b"\x1b[2Jb\x07", "formula": b"$\\frac{$"}
POISON = "\\u001b]0;title\\u0007\\u009b2J\\ud83d \\u202e"


def poisoned(text: str, number: str) -> str:
    """A detail log's text with escape sequences in half of its texts, and this for every fifth
    of its numbers."""
    lines = text.split("\n")
    for place in range(0, len(lines), 2):
        lines[place] = re.sub(r'("value": ")', rf"\1{re.escape(POISON)}", lines[place])
    for place in range(0, len(lines), 5):
        lines[place] = re.sub(r'("value": )[\d.]+', rf"\g<1>{number}", lines[place])
    return "\n".join(lines)


def test_no_escape_sequence_of_a_log_or_a_name_leaves_the_suite(tmp_path: Path) -> None:
    """To the terminal, to JUnit's XML and to Allure's results."""
    root = tmp_path / os.fsdecode(b"root\x1b[2J\xff")
    for number, name in zip(("1.7e308", "NaN", "-1e999"), NAMES.values(), strict=True):
        for mode in ("performance", "accuracy"):
            folder = root / os.fsdecode(name) / mode
            folder.mkdir(parents=True)
            scenario = LLAMA3_1_8B.scenario("Server")
            write_run(folder, MadeRun(LLAMA3_1_8B, scenario, mode, V6_1))
            log = folder / DETAIL
            log.write_text(poisoned(log.read_text(), number))
        (folder / "accuracy.txt").write_text(f"{{'rouge1': {number}}}\x1b[2J\x9b")
    junit, allure = tmp_path / "junit.xml", tmp_path / "allure"
    arguments = ("-m", "compliance", f"--logs={root}", "-q", "-rA", f"--junitxml={junit}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    command = (*PYTEST[3:], "-p", "no:cacheprovider", *arguments, f"--alluredir={allure}")
    status, output = run_warm(command, environment, 1800.0)
    assert status == 1 and "FAILED" in output
    texts = [output, *ElementTree.parse(junit).getroot().itertext()]
    results = [json.loads(path.read_text("utf-8")) for path in allure.glob("*-result.json")]
    assert results
    for result in results:
        # What Allure shows of a test.
        message = result.get("statusDetails", {}).get("message", "")
        texts += [result["name"], result.get("description", ""), message]
        texts += [part["value"] for part in result.get("parameters", ())]
    for text in texts:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", text)
