"""Function calling of edge-agentic: BFCL v4's samples and checker, started as a process of their
own environment, and the accuracy that both gates judge.

Questions of this project have the form of BFCL v4's single turns: a subset's name says what is
right (a tool is called, or none), and a reference lists for each call the values that each argument
may have; "" among them: it may be left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.features.chats.bfcl_worker import SUBSETS
from mlperf_suite.scorers.scorer import GEN_NUM, Answer, Score, Scores, percentages

OVERALL, NORMALIZED = "overall", "normalized"
"""The scores that are gated."""
BFCL_PYTHON = SUITE_FOLDER / ".bfcl" / "bin" / "python"
"""Of the environment that `make bfcl` makes."""
BFCL_CHECKER = "bfcl-eval's AST checker"
OWN_CHECKER = "the suite's own comparison"
_WORKER = Path(__file__).with_name("bfcl_worker.py")
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class FunctionCallScores:
    """Accuracy in percent, rounded to two decimals as officially. `normalized`: the mean of the
    categories. `missing`: samples without an answer, which count as wrong."""

    overall: float
    normalized: float
    categories: dict[str, float]
    subsets: dict[str, float]
    samples: int
    missing: int


def drawn_samples(python: Path) -> list[dict[str, Any]]:
    """The samples of the accuracy run; `python` is that of the environment with bfcl-eval."""
    samples: list[dict[str, Any]] = _run(python, "samples")
    return samples


def checked_answers(
    python: Path,
    answers: Mapping[str, Sequence[Any]],
    samples: Sequence[Mapping[str, Any]] = (),
) -> dict[str, int]:
    """1 or 0 for each answer, which is its tool calls, by the id of its sample. `samples`: those to
    check against in place of BFCL's."""
    content = {"answers": answers, "samples": samples}
    verdicts: dict[str, int] = _run(python, "check", content)
    return verdicts


def _run(python: Path, command: str, content: object = None) -> Any:
    if not python.is_file():
        raise SuiteError(f"{python}: no environment with bfcl-eval: run make bfcl")
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in.json"), Path(folder, "out.json")
        given.write_text(json.dumps(content), encoding="utf-8")
        files = [str(given), str(out)] if command == "check" else [str(out)]
        words = [str(python), "-I", str(_WORKER), command, *files]
        try:
            subprocess.run(
                words, cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise SuiteError(f"bfcl-eval did not end within {_TIMEOUT_S:g} s") from error
        except subprocess.CalledProcessError as error:
            line = (error.stderr or "").strip().rpartition("\n")[2]
            raise SuiteError(f"bfcl-eval failed: {line}: run make bfcl again") from error
        return json.loads(out.read_text(encoding="utf-8"))


def scores(subset_of: Mapping[str, str], verdicts: Mapping[str, int]) -> FunctionCallScores:
    """The scores of all samples in `subset_of`, the subset by id; those without a verdict are
    missing. As BFCLv4Scorer.score (mlcommons/endpoints, evaluation/bfcl_v4_scorer.py)."""
    points: dict[str, list[int]] = {}
    for number, subset in subset_of.items():
        points.setdefault(subset, []).append(verdicts.get(number, 0))
    means = {subset: statistics.fmean(values) for subset, values in points.items()}
    categories = {
        category: _category(category, points, means)
        for category in dict.fromkeys(SUBSETS[subset] for subset in points)
    }
    return FunctionCallScores(
        overall=_percent(statistics.fmean(v for values in points.values() for v in values)),
        normalized=_percent(statistics.fmean(categories.values())),
        categories={name: _percent(value) for name, value in categories.items()},
        subsets={name: _percent(value) for name, value in means.items()},
        samples=len(subset_of),
        missing=sum(number not in verdicts for number in subset_of),
    )


def _category(category: str, points: Mapping[str, list[int]], means: Mapping[str, float]) -> float:
    """`live` weighs by samples, `hallucination` by subsets; in `non_live` the three simple subsets
    count as one."""
    members = [subset for subset in points if SUBSETS[subset] == category]
    if category == "live":
        return statistics.fmean(value for subset in members for value in points[subset])
    simple = [means[subset] for subset in members if subset.startswith("simple_")]
    others = [means[subset] for subset in members if not subset.startswith("simple_")]
    if category == "non_live":
        return statistics.fmean(([statistics.fmean(simple)] if simple else []) + others)
    return statistics.fmean(simple + others)


def _percent(value: float) -> float:
    return round(value * 100, 2)


# As a benchmark's data and scorer


def load_questions(source: str, token: str | None = None) -> Samples:
    """BFCL v4's questions as they are drawn officially, whatever data is named for the replay.

    Raises UsageError without bfcl-eval.
    """
    try:
        rows = drawn_samples(BFCL_PYTHON)
    except SuiteError as error:
        raise UsageError(str(error)) from error
    samples = (
        question_sample(r["id"], r["subset"], r["messages"], r["tools"], r["reference"])
        for r in rows
    )
    return Samples("BFCL v4, single turn", tuple(samples))


@dataclass(frozen=True, slots=True)
class FunctionCallScorer:
    """`overall` and `normalized` in percent. An answer's text is the JSON list of its tool calls;
    an empty text stands for no answer, which is wrong.

    `own_questions`: they are not BFCL's, and where bfcl-eval is not installed the suite compares
    the calls itself.
    """

    own_questions: bool = False
    name: str = "function_calls"

    def check(self) -> None:
        """Raise UsageError if BFCL's questions cannot be checked."""
        if not (self.own_questions or BFCL_PYTHON.is_file()):
            raise UsageError(f"{BFCL_PYTHON}: no environment with bfcl-eval: run make bfcl")

    @property
    def checker(self) -> str:
        """What checks the calls, in words."""
        return BFCL_CHECKER if BFCL_PYTHON.is_file() else OWN_CHECKER

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers. Raises SuiteError if bfcl-eval fails."""
        calls = {a.sample.id: json.loads(a.text) for a in answers if a.text}
        verdicts = self._verdicts(answers, calls)
        result = scores({a.sample.id: a.sample.kind for a in answers}, verdicts)
        values = {OVERALL: result.overall, NORMALIZED: result.normalized, **result.categories}
        right = percentages(bool(verdicts.get(answer.sample.id)) for answer in answers)
        figures = [Score(name, value, "%") for name, value in values.items()]
        return Scores(
            (*figures, Score(GEN_NUM, len(calls), "answers")), per_answer={OVERALL: right}
        )

    def _verdicts(self, answers: Sequence[Answer], calls: Mapping[str, Any]) -> dict[str, int]:
        if not self.own_questions:
            return checked_answers(BFCL_PYTHON, calls)
        rows = [_row(answer) for answer in answers if answer.sample.id in calls]
        if self.checker == BFCL_CHECKER:
            return checked_answers(BFCL_PYTHON, calls, rows)
        return {row["id"]: int(same_calls(calls[row["id"]], row["reference"])) for row in rows}


def _row(answer: Answer) -> dict[str, Any]:
    """A question as the checker takes it, with its tools as BFCL describes functions."""
    sample = answer.sample
    functions = [
        {
            "description": "",
            **tool["function"],
            "parameters": _in_bfcl_types(tool["function"]["parameters"]),
        }
        for tool in question_of(sample)[1]
    ]
    names = {"id": sample.id, "subset": sample.kind, "functions": functions}
    return names | {"reference": json.loads(sample.reference)}


_BFCL_TYPES = {"object": "dict", "number": "float"}


def _in_bfcl_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_in_bfcl_types(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _in_bfcl_types(value) for name, value in schema.items()}
    kind = inner.get("type")
    return inner | ({"type": _BFCL_TYPES.get(kind, kind)} if isinstance(kind, str) else {})


def same_calls(calls: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]]) -> bool:
    """Whether calls are those of a reference, in any order. Stricter than bfcl-eval's checker:
    texts are compared letter by letter, and a value's type counts."""
    rest = list(reference)
    for call in calls:
        match = next((wanted for wanted in rest if _is_call(call, wanted)), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


def _is_call(call: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    ((name, allowed),) = wanted.items()
    try:
        arguments = json.loads(call["function"]["arguments"])
    except (ValueError, RecursionError):
        return False
    if call["function"]["name"] != name or not isinstance(arguments, dict):
        return False
    given = all(key in allowed and _is_among(arguments[key], allowed[key]) for key in arguments)
    return given and all(key in arguments or "" in values for key, values in allowed.items())


def _is_among(value: Any, allowed: Sequence[Any]) -> bool:
    return any(type(value) is type(entry) and value == entry for entry in allowed)


EMBEDDED_QUESTIONS = Path(__file__).parent / "embedded" / "function_calls.json"
"""Ten tools, and questions, that were written for this project."""


def load_own_questions(source: str, token: str | None = None) -> Samples:
    """The package's own questions, whatever data is named for the replay."""
    content = json.loads(EMBEDDED_QUESTIONS.read_text(encoding="utf-8"))
    tools = {tool["function"]["name"]: tool for tool in content["tools"]}
    rows = [
        question_sample(
            row["id"],
            row["subset"],
            [{"role": "user", "content": row["text"]}],
            [tools[name] for name in row["tools"]],
            row["reference"],
        )
        for row in content["samples"]
    ]
    return Samples("embedded", tuple(rows))


def question_sample(
    id_: str,
    subset: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    reference: Sequence[Any],
) -> Sample:
    """A question as a sample; see `question_of`."""
    content = json.dumps({"messages": messages, "tools": tools})
    return Sample(content, json.dumps(reference), kind=subset, id=id_)


def question_of(sample: Sample) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages and the tools of a question."""
    content = json.loads(sample.input)
    return content["messages"], content["tools"]
