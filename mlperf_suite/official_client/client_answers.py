"""The answers of an accuracy run of the official client, from its events.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, convert, json

from mlperf_suite.errors import RunError
from mlperf_suite.official_client.client_job import ACCURACY_DATA
from mlperf_suite.strangers import open_regular, read_regular

EVENTS_FILE, INDEX_FILE = "events.jsonl", "sample_idx_map.json"
_MOST_BYTES, _LONGEST_LINE = 2**38, 2**26


class _Completion(Struct):
    event_type: str
    sample_uuid: str = ""
    data: Any = None


def accuracy_answers(report: Path) -> dict[int, str]:
    """By the sample's number, the text that answered it; "" for a request that failed.

    A sample without an answer is missing. Raises RunError for files that cannot be read.
    """
    try:
        maps = json.decode(read_regular(report / INDEX_FILE), type=dict[str, dict[str, int]])
        numbers = maps.get(ACCURACY_DATA, {})
        return dict(_answers(report / EVENTS_FILE, numbers))
    except OSError as error:
        raise RunError(f"{report}: {error.strerror or error}") from None
    except (DecodeError, ValueError, RecursionError):
        raise RunError(f"{report}: {INDEX_FILE} or {EVENTS_FILE} cannot be read") from None


def _answers(path: Path, numbers: dict[str, int]) -> list[tuple[int, str]]:
    decoder = json.Decoder(_Completion)
    answers = []
    with open_regular(path, _MOST_BYTES) as file:
        while line := file.readline(_LONGEST_LINE):
            if b"sample.complete" not in line:
                continue
            event = decoder.decode(line)
            number = numbers.get(event.sample_uuid)
            if event.event_type == "sample.complete" and number is not None:
                answers.append((number, _text(event.data)))
    return answers


def _text(data: Any) -> str:
    """The text in a TextModelOutput: its tag, and the output as one text or in the pieces that a
    stream brought."""
    try:
        _, output, *_ = convert(data, tuple[str, str | list[str], Any, Any])
    except ValidationError:
        return ""
    return output if isinstance(output, str) else "".join(output)
