"""Recorded conversations of a few short turns, for servers that reuse what they keep of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SYSTEM = "You are a helper who answers in one short sentence. " * 12


def _conversation(name: str, turns: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for turn in range(turns):
        asked = {"role": "user", "content": f"What is {turn} plus {turn}?", "system": SYSTEM}
        lines += [asked, {"role": "assistant", "content": f"It is {2 * turn}."}]
    return [line | {"conversation_id": name, "turn": n} for n, line in enumerate(lines, 1)]


def write_conversations(folder: Path) -> Path:
    """Write three of three turns each; returns their file."""
    lines = [line for name in ("a", "b", "c") for line in _conversation(name, 3)]
    file = folder / "sessions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file
