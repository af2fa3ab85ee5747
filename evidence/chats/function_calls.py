"""Scores of function calling by the suite and by the official scorer, on made answers.

    python -m evidence.chats.function_calls [CLIENT_PYTHON [BFCL_PYTHON]]

CLIENT_PYTHON is that of .endpoints-client, BFCL_PYTHON that of .bfcl; both of one Python version,
because the official scorer imports bfcl-eval from the second. Exit status 1 if any sample, verdict
or score differs.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlperf_suite.features.chats.function_calls import checked_answers, drawn_samples, scores

SEED, ROUNDS = 20_262, 3
_OFFICIAL = """
import json, logging, subprocess, sys, tempfile
from pathlib import Path
sys.path.append(sys.argv[1])
import pandas as pd
from inference_endpoint.dataset_manager.predefined.bfcl_v4 import BFCLv4
from inference_endpoint.evaluation.bfcl_v4_scorer import BFCLv4Scorer
from inference_endpoint.evaluation.extractor import FunctionCallExtractor
pairs = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    frame = BFCLv4.generate(
        Path(folder), categories=["non_live", "live", "hallucination"],
        category_sample_pct={"non_live": 62, "live": 10, "hallucination": 10}, subset_floor=25)
class Data:
    dataframe = frame
    def num_samples(self):
        return len(frame)
result = {"ids": list(frame["sample_id"]), "rounds": [],
          "tools": [json.dumps(t) for t in frame["tools"]],
          "messages": [json.dumps(m) for m in frame["messages"]]}
for answers in pairs:
    scorer = object.__new__(BFCLv4Scorer)
    scorer.dataset, scorer.extractor = Data(), FunctionCallExtractor
    scorer.ground_truth_column = "ground_truth"
    scorer.sample_index_map = {i: n for n, i in enumerate(frame["sample_id"])}
    rows = [{"sample_uuid": i, "output": json.dumps(c) if c else ""} for i, c in answers.items()]
    scorer.get_scoring_outputs = lambda rows=rows: pd.DataFrame(rows)
    verdicts = {}
    def kept(name, scorer=scorer, verdicts=verdicts):
        real = getattr(scorer, name)
        def call(*args, **fields):
            value = real(*args, **fields)
            verdicts[len(verdicts)] = value
            return value
        setattr(scorer, name, call)
    kept("_score_ast"); kept("_score_hallucination")
    scorer.score()
    order = list(answers)
    named = {order[n]: value for n, value in verdicts.items()}
    result["rounds"].append({"verdicts": named, "breakdown": scorer.score_breakdown()})
json.dump(result, open(sys.argv[2], "w"))
"""


def right_calls(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """Calls that the reference accepts: the first value of each argument."""
    return [
        _call(name.replace(".", "_"), {key: values[0] for key, values in arguments.items()})
        for answer in sample["reference"]
        for name, arguments in answer.items()
    ]


def _call(name: str, arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "c", "type": "function", "function": function}


def made_calls(sample: dict[str, Any], drawn: random.Random) -> list[dict[str, Any]]:
    """Right calls, or calls with one of the faults that models have."""
    calls = right_calls(sample) or [_call("f", {})] * drawn.randint(0, 1)
    fault = drawn.randrange(10)
    if not calls or fault < 4:
        return calls
    function = calls[0]["function"]
    arguments = json.loads(function["arguments"])
    if fault == 4:
        return []
    if fault == 5:
        return calls[1:] if drawn.random() < 0.5 else [*calls, calls[0]]
    if fault == 6:
        arguments.pop(next(iter(arguments), ""), None)
    elif fault == 7:
        arguments["unknown"] = 1
    elif fault == 8:
        for key in list(arguments)[:1]:
            arguments[key] = drawn.choice(["x", 1, 1.5, None, [], {}, True, str(arguments[key])])
    function["arguments"] = json.dumps(arguments)
    if fault == 9:
        function["arguments"] = function["arguments"][:-1]
    return calls


def official_result(client: str, bfcl: Path, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The official drawing, verdicts and scores."""
    packages = next((bfcl.parent.parent / "lib").glob("python3.*/site-packages"))
    out = Path(f"/tmp/function_calls_{random.getrandbits(32):x}.json")
    words = [client, "-c", _OFFICIAL, str(packages), str(out)]
    subprocess.run(words, input=json.dumps(rounds), text=True, check=True, stdout=sys.stderr)
    result: dict[str, Any] = json.loads(out.read_text())
    out.unlink()
    return result


def main() -> int:
    client = sys.argv[1] if sys.argv[1:] else ".endpoints-client/bin/python"
    bfcl = Path(sys.argv[2] if sys.argv[2:] else ".bfcl/bin/python").absolute()
    drawn = random.Random(SEED)
    samples = drawn_samples(bfcl)
    rounds = [{s["id"]: made_calls(s, drawn) for s in samples} for _ in range(ROUNDS)]
    # In the last round a tenth of the samples has no answer.
    rounds[-1] = {key: calls for key, calls in rounds[-1].items() if drawn.random() < 0.9}
    official = official_result(client, bfcl, rounds)
    differences = 0
    for name, field in (("ids", "id"), ("tools", "tools"), ("messages", "messages")):
        ours = [s[field] if field == "id" else json.dumps(s[field]) for s in samples]
        differing = sum(a != b for a, b in zip(ours, official[name], strict=True))
        print(f"{name}: {len(ours)} compared, {differing} differ")
        differences += differing
    for answers, theirs in zip(rounds, official["rounds"], strict=True):
        verdicts = checked_answers(bfcl, answers)
        differing = sum(verdicts[key] != value for key, value in theirs["verdicts"].items())
        ours_all = scores({s["id"]: s["subset"] for s in samples}, verdicts)
        same = _same(asdict(ours_all), theirs["breakdown"])
        right = sum(verdicts.values())
        print(f"answers: {len(verdicts)} compared, {right} right, {differing} differ; ", end="")
        print(f"overall {ours_all.overall}, normalized {ours_all.normalized}: ", end="")
        print("scores equal" if same else f"scores differ: {theirs['breakdown']}")
        differences += differing + (not same) + (len(verdicts) != len(theirs["verdicts"]))
    return 1 if differences else 0


def _same(ours: dict[str, Any], official: dict[str, Any]) -> bool:
    names = {"overall": "overall_accuracy", "normalized": "normalized_single_turn_score"}
    names |= {"categories": "category_scores", "subsets": "subset_scores"}
    return all(ours[name] == official[other] for name, other in names.items())


if __name__ == "__main__":
    sys.exit(main())
