"""Recorded sessions of an agent, as the files of a benchmark have them."""

import json
from pathlib import Path
from typing import Any

from meta_tests.features.servers.chat_stand_in import Events, call_piece, last

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]


def rows(name: str, commands: list[str]) -> list[dict[str, Any]]:
    """A recorded conversation whose model starts these commands."""
    lines: list[dict[str, Any]] = []
    for position, command in enumerate(commands):
        row: dict[str, Any] = {"role": "tool", "delay_seconds": 0.05}
        row["tool_results"] = [{"tool_call_id": f"c{position - 1}", "content": "done"}]
        if position == 0:
            row = {"role": "user", "content": "Do it.", "system": "Help.", "tools": TOOLS}
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"c{position}", "type": "function", "function": function}
        lines += [row, {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [call]}]
    return [row | {"conversation_id": name, "turn": i} for i, row in enumerate(lines, 1)]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    file = path / "sessions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    return file


MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]})
"""What a server of the model m says of itself."""


def says_ls(body: dict[str, Any]) -> Events:
    """A model that starts `ls` at each turn."""
    return [call_piece(0, '{"comm', "bash"), call_piece(0, 'and": "ls"}'), *last("tool_calls")]
