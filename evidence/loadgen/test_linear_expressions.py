"""Regular expressions over strangers' text take time in proportion to its length.

Shown by their structure: no repeat without a bound begins anew at each character of what it
matches, is followed by another that matches the same, or repeats such a one.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import mlperf_suite

ROOMS = re.compile(
    r"mlperf_suite\.(judging|rules|loadgen|features\.(submission_check|log_consistency|endpoints))"
)
UNBOUNDED = 1000
CHARACTERS = frozenset(map(chr, range(0x250)))
STARTS = (kinds.AT_BEGINNING, kinds.AT_BEGINNING_STRING)
REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
WITHOUT_TEXT = (kinds.AT, kinds.ASSERT, kinds.ASSERT_NOT)


class Part(NamedTuple):
    """What an expression matches `least` to `most` times: one of these characters, or `group`.

    A part without characters is the beginning of a line or of the text.
    """

    characters: frozenset[str]
    least: int = 1
    most: int = 1
    group: tuple[Part, ...] = ()


def characters_of(kind: Any, value: Any) -> frozenset[str]:
    """Of an element that matches one character: what of `CHARACTERS` it matches."""
    one = parser.SubPattern(parser.State(), [(kind, value)])
    compiled = re._compiler.compile(one)  # type: ignore[attr-defined]
    return frozenset(filter(compiled.fullmatch, CHARACTERS))


def sequences(elements: Any) -> list[tuple[Part, ...]]:
    """Every sequence of parts that an expression stands for, a group that may be absent in both
    ways."""
    found: list[tuple[Part, ...]] = [()]
    for kind, value in elements:
        if kind is kinds.SUBPATTERN:
            ways = sequences(value[3])
        elif kind is kinds.BRANCH:
            ways = [way for branch in value[1] for way in sequences(branch)]
        elif kind in REPEATS:
            ways = repeated(*value)
        elif kind in WITHOUT_TEXT:
            ways = [(Part(frozenset()),)] if value in STARTS else [()]
        else:
            ways = [(Part(characters_of(kind, value)),)]
        found = [before + way for before in found for way in ways]
    return found


def repeated(least: int, most: int, body: Any) -> list[tuple[Part, ...]]:
    ways = sequences(body)
    if most < UNBOUNDED:
        return ways + [()] * (least == 0)
    return [
        (Part(frozenset().union(*(p.characters for p in way)), least, most, way),) for way in ways
    ]


def doubts(sequence: tuple[Part, ...], *, anywhere: bool = True) -> Iterator[str]:
    anywhere &= bool(sequence) and bool(sequence[0].characters)
    parts = [part for part in sequence if part.characters]
    for place, part in enumerate(parts):
        if part.most < UNBOUNDED:
            continue
        yield from doubts(part.group * 2, anywhere=False)
        for later in parts[place + 1 :]:
            if later.most >= UNBOUNDED and later.characters & part.characters:
                yield "two repeats of the same"
            if later.least and not later.characters & part.characters:
                break
        begun = all(p.characters & part.characters or not p.least for p in parts[:place])
        if anywhere and begun and place < len(parts) - 1:
            yield "a repeat that begins anywhere"


def expressions() -> Iterator[tuple[str, str | bytes, int, bool]]:
    """Where each stands that a module of the rooms has compiled, or names in a call of `re`."""
    for info in pkgutil.walk_packages(mlperf_suite.__path__, "mlperf_suite."):
        if not ROOMS.match(info.name):
            continue
        module = import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{info.name} {name}", value.pattern, value.flags, True
        for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re."):
                match call.args:
                    case [ast.Constant(str(pattern)), *_]:
                        anywhere = ast.unparse(call.func) not in ("re.match", "re.fullmatch")
                        yield f"{info.name}:{call.lineno}", pattern, 0, anywhere


def test_every_expression_over_others_texts_is_linear() -> None:
    places = list(expressions())
    found = {
        where: (pattern, doubt)
        for where, pattern, flags, anywhere in places
        for sequence in sequences(parser.parse(pattern, flags & ~re.DEBUG))
        for doubt in doubts(sequence, anywhere=anywhere)
    }
    assert len(places) > 40
    assert found == {}
