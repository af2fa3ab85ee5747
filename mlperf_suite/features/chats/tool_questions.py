"""Questions that are answered by calling a tool, or by calling none: those of this project.

Their form follows BFCL v4's single turns: a subset's name says what is right, and a reference lists
for each call the values that each argument may have; "" among them: it may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.datasets.samples import Sample, Samples

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
