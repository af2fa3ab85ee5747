"""What a grader that runs programs says of answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeGrades:
    """Whether each answer's program passed its tests, in the order of the answers.

    None stands for an answer that no program was run for. `not_judged`: why there is no figure, in
    a few words; empty where there is one.
    """

    passed: tuple[bool | None, ...]
    not_judged: str = ""
