"""Messages as the tokens that a tokenizer's chat template makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlperf_suite.errors import UsageError, first_line

Json = Mapping[str, Any]


def in_template(
    messages: Sequence[Json], tools: Sequence[Json] | None, tokenizer: Any, **arguments: Any
) -> list[int]:
    """The tokens of messages as they are in a tokenizer's chat template, which gets the arguments.

    Raises UsageError if the template refuses them, or there is none.
    """
    try:
        options = {"add_generation_prompt": True, **arguments, "return_dict": False}
        tokens: list[int] = tokenizer.apply_chat_template(messages, tools=tools, **options)
    # jinja2 raises errors of its own, and transformers ValueError without a template; a template
    # may also do with a tool's schema what Python refuses.
    except Exception as error:
        raise UsageError(f"--model: its chat template fails: {first_line(error)}") from error
    return tokens


def with_objects(message: Json, empty: str = "") -> dict[str, Any]:
    """A message whose calls have an object as arguments, not its JSON. `empty`: for none."""
    ready = dict(message)
    if calls := message.get("tool_calls"):
        ready["tool_calls"] = [_with_object(call, empty) for call in calls]
    return ready


def _with_object(call: Any, empty: str) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or empty)
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
