"""Production traces, of a few requests each."""

import json
from pathlib import Path
from typing import Any

ROW = {"timestamp": 27482, "input_length": 1000, "output_length": 52, "hash_ids": [46, 47]}


def written(path: Path, *rows: Any, name: str = "trace.jsonl") -> Path:
    file = path / name
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("".join(f"{text}\n" for text in texts))
    return file


def span(at_ns: object, prompt: object = "7", answer: object = "3", **more: str) -> dict[str, Any]:
    values = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": answer}
    attributes = [{"key": key, "value": {"intValue": value}} for key, value in values.items()]
    attributes += [{"key": k, "value": {"stringValue": v}} for k, v in more.items()]
    return {"name": "chat m", "startTimeUnixNano": at_ns, "attributes": attributes}


def exported(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
