"""BFCL v4's samples and its AST checker, in the environment of `make bfcl`.

    .bfcl/bin/python mlperf_suite/features/chats/bfcl_worker.py samples OUT.json
    .bfcl/bin/python mlperf_suite/features/chats/bfcl_worker.py check ANSWERS.json OUT.json

Imports nothing of the suite, which is not installed there. ANSWERS.json has `answers`: by the id of
a sample, the tool calls of the answer; OUT.json then has 1 or 0 by id. Its `samples` take the place
of BFCL's own, each with its id, subset, functions and reference. Drawing and cases are those of
mlcommons/endpoints (dataset_manager/predefined/bfcl_v4, evaluation/bfcl_v4_scorer.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SHARES = {"non_live": 62, "live": 10, "hallucination": 10}
"""The percentage of each subset that is drawn, by category; always its first samples."""
SUBSETS = {
    "irrelevance": "hallucination",
    "live_irrelevance": "hallucination",
    "live_multiple": "live",
    "live_parallel": "live",
    "live_parallel_multiple": "live",
    "live_simple": "live",
    "multiple": "non_live",
    "parallel": "non_live",
    "parallel_multiple": "non_live",
    "simple_java": "non_live",
    "simple_javascript": "non_live",
    "simple_python": "non_live",
}
"""The category of each subset, in the order of the samples."""
WHOLE = 25
"""A subset of at most so many samples is taken whole."""
_LANGUAGES = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}
_MODEL = "gpt-4o-2024-11-20-FC"
"""Makes the checker turn underscores in names of functions back into dots."""


def drawn(total: int, category: str) -> int:
    """How many samples of a subset with `total` are drawn."""
    return total if total <= WHOLE else max(1, int(total * SHARES[category] / 100))


def samples(data: Path) -> list[dict[str, Any]]:
    """The drawn samples with their messages, tools and reference; `data`: bfcl-eval's folder."""
    found = []
    for subset, category in SUBSETS.items():
        rows = _lines(data / f"BFCL_v4_{subset}.json")
        references = data / "possible_answer" / f"BFCL_v4_{subset}.json"
        answers = {row["id"]: row["ground_truth"] for row in _lines(references)}
        for row in rows[: drawn(len(rows), category)]:
            found.append(_sample(row, subset, answers.get(row["id"], [])))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _sample(row: dict[str, Any], subset: str, reference: list[Any]) -> dict[str, Any]:
    messages = [
        {"role": message["role"], "content": message.get("content") or ""}
        for turn in row["question"]
        for message in turn
    ]
    functions = row.get("function", [])
    names = {"id": row["id"], "subset": subset, "messages": messages, "functions": functions}
    return names | {"tools": _tools(functions), "reference": reference}


def _tools(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from bfcl_eval.constants.enums import ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.model_handler.utils import convert_to_tool

    # The conversion changes what it is given, and the checker needs the original.
    copy = json.loads(json.dumps(functions))
    tools: list[dict[str, Any]] = convert_to_tool(
        copy, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS
    )
    return tools


def check(sample: dict[str, Any], calls: list[dict[str, Any]]) -> int:
    """1 if the tool calls are right, else 0."""
    if SUBSETS[sample["subset"]] == "hallucination" or not sample["reference"]:
        return int(not calls)
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    try:
        result = ast_checker(
            func_description=sample["functions"],
            model_output=[{call["function"]["name"]: _arguments(call)} for call in calls],
            possible_answer=sample["reference"],
            language=Language[_LANGUAGES.get(sample["subset"], "PYTHON")],
            test_category=sample["subset"],
            model_name=_MODEL,
        )
    except Exception:
        # The checker expects arguments of the right shape; a model may send any.
        return 0
    return int(bool(result["valid"]))


def _arguments(call: dict[str, Any]) -> Any:
    try:
        return json.loads(call["function"]["arguments"])
    except (ValueError, RecursionError):
        return {}


def main() -> None:
    import bfcl_eval

    data = Path(bfcl_eval.__file__).parent / "data"
    result: Any
    if sys.argv[1] == "check":
        content = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
        rows, answers = content.get("samples") or samples(data), content["answers"]
        result = {row["id"]: check(row, answers[row["id"]]) for row in rows if row["id"] in answers}
    else:
        result = samples(data)
    Path(sys.argv[-1]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
