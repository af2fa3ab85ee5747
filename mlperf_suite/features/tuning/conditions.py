"""Which choices of a space may be tried together: `[[when]]` of the file for `--space`.

[[when]]
only = "max_num_batched_tokens >= max_num_seqs"    # of all settings

[[when]]
max_cudagraph_capture_size = [1024]                # only these choices need the comparison
only = "enforce_eager in [null, false]"
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.space import CONDITIONS, Choice, Settings, Space, Value, contents

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"\s*(\w+)\s*(>=|<=|==|!=|>|<|\bin\b)\s*(.+?)\s*")
_TOKENS, _BATCH = "max_num_batched_tokens", "max_num_seqs"
_CHUNKED = "enable_chunked_prefill"
_CONTEXT = 8192
"""The longest context that the suite asks vLLM for; without chunks, a step takes a whole prompt."""
_GRAPHS = "max_cudagraph_capture_size"
_SPLIT, _COPIES = "tensor_parallel_size", "data_parallel_size"
_EXAMPLE = 'only = "NAME >= NAME" (or <=, >, <, ==, !=, in [VALUES])'


@dataclass(frozen=True)
class Condition:
    """A comparison that settings need in order to be tried.

    `choices`: by name, the choices to which it applies; with none, to all settings. `right`: a
    name of the space, else JSON. In an order, a default holds: its value is vLLM's own choice.
    """

    choices: Mapping[str, tuple[Choice, ...]]
    left: str
    relation: str
    right: str
    space: Space

    def holds(self, settings: Settings) -> bool:
        """Whether these settings may be tried."""
        if any(settings[name] not in choices for name, choices in self.choices.items()):
            return True
        left, right = settings[self.left], self._right(settings)
        if self.relation == "in":
            return bool(left in right)
        if self.relation in ("==", "!="):
            return bool((left == right) == (self.relation == "=="))
        return left is None or right is None or bool(_ORDERS[self.relation](left, right))

    def allowed(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """The same for rows of choices' numbers, a column for each name of the space."""
        columns = [list(self.space).index(name) for name in self.names]
        return np.asarray(self.table[tuple(rows[:, column] for column in columns)])

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        """Whether it holds, an axis for each of `names`."""
        choices = [self.space[name] for name in self.names]
        combinations = (
            dict(zip(self.names, of, strict=True)) for of in itertools.product(*choices)
        )
        return np.array([self.holds(of) for of in combinations]).reshape([*map(len, choices)])

    @cached_property
    def names(self) -> list[str]:
        """The settings that it is about."""
        right = [self.right] if self.right in self.space else []
        return list(dict.fromkeys([*self.choices, self.left, *right]))

    def __str__(self) -> str:
        whose = [f"{name} = {json.dumps(list(v))}, " for name, v in self.choices.items()]
        return f'{"".join(whose)}only = "{self.left} {self.relation} {self.right}"'

    def _right(self, settings: Settings) -> Any:
        return settings[self.right] if self.right in self.space else json.loads(self.right)


Conditions = Sequence[Condition]


def conditions_of(file: Path | None, space: Space) -> Conditions:
    """vLLM's own conditions and a file's, checked against its space.

    Raises UsageError for one that is malformed, names what the space does not have, or under which
    the default or another choice could never be tried.
    """
    where = f"--space {file}" if file else "tune"
    written = contents(file)
    tables = written.get(CONDITIONS, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{where}: when: must be a list of tables, [[when]]")
    own = list(_vllm_conditions(space))
    for condition in own:
        _check(condition, [name for name in condition.names if name in written], where)
    found = [_condition(table, space, where) for table in tables]
    for condition in found:
        _check(condition, condition.names, where)
    return [*own, *found]


def _vllm_conditions(space: Space) -> Iterator[Condition]:
    """The conditions without which vLLM refuses its arguments or ignores one
    (vllm/config/scheduler.py)."""
    if {_TOKENS, _BATCH} <= space.keys():
        yield Condition({}, _TOKENS, ">=", _BATCH, space)
    if {_TOKENS, _CHUNKED} <= space.keys() and False in space[_CHUNKED]:
        yield Condition({_CHUNKED: (False,)}, _TOKENS, ">=", str(_CONTEXT), space)
    if {_GRAPHS, "enforce_eager"} <= space.keys():
        sizes = tuple(size for size in space[_GRAPHS] if size is not None)
        yield Condition({_GRAPHS: sizes}, "enforce_eager", "!=", "true", space)
    if {_SPLIT, _COPIES} <= space.keys():
        counts = [count for name in (_SPLIT, _COPIES) for count in space[name] if count]
        gpus = max(int(str(count)) for count in counts)
        for split in (count for count in space[_SPLIT] if count is not None):
            most = str(gpus // int(str(split)))
            yield Condition({_SPLIT: (split,)}, _COPIES, "<=", most, space)


def _check(condition: Condition, names: Sequence[str], where: str) -> None:
    """Raise UsageError if the default or another choice of these names could never be tried."""
    table = _table(condition, where)
    if not table.flat[0]:
        raise UsageError(f"{where}: [[when]] {condition}: leaves out the default settings")
    for axis, name in enumerate(condition.names):
        possible = np.any(table, axis=tuple(other for other in range(table.ndim) if other != axis))
        never = [
            c
            for c, may in zip(condition.space[name], np.atleast_1d(possible), strict=True)
            if not may
        ]
        if never and name in names:
            raise UsageError(f"{where}: [[when]] {condition}: {name} = {never[0]} is never tried")


def _table(condition: Condition, where: str) -> NDArray[np.bool_]:
    try:
        return condition.table
    except TypeError as error:
        raise UsageError(f"{where}: [[when]] {condition}: cannot be compared: {error}") from error


def _condition(table: Mapping[str, object], space: Space, where: str) -> Condition:
    comparison = table.get("only")
    match = _COMPARISON.fullmatch(comparison) if isinstance(comparison, str) else None
    if match is None:
        raise UsageError(f"{where}: [[when]]: needs {_EXAMPLE}, not {comparison!r}")
    choices = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in table.items()
        if name != "only"
    }
    left, relation, right = match.groups()
    for name in (left, *choices):
        if name not in space:
            raise UsageError(f"{where}: [[when]] {comparison}: {name} is not searched")
    for name, values in choices.items():
        for value in values:
            if value not in space[name]:
                what = f"{name} = {value} is not a choice"
                raise UsageError(f"{where}: [[when]] {comparison}: {what}")
    if right not in space:
        _check_right(right, relation, f"{where}: [[when]] {comparison}")
    return Condition(choices, left, relation, right, space)


def _check_right(right: str, relation: str, where: str) -> None:
    try:
        value = json.loads(right)
    except (ValueError, RecursionError):
        value = {}
    if not isinstance(value, list if relation == "in" else Value | None):
        kind = "a list" if relation == "in" else "a name of the space or a value"
        raise UsageError(f"{where}: {right} is not {kind} in JSON")
