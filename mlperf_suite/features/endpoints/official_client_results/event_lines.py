"""The events in the official client's events.jsonl (core/record.py of mlcommons/endpoints)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from msgspec import DecodeError, Meta, Raw, Struct, json

from mlperf_suite.untrusted_files import open_regular

_MAX_EVENTS_BYTES = 2**38
_MAX_LINE_LENGTH = 2**26


class Event(Struct):
    """One event; `timestamp_ns` of the client's clock."""

    event_type: str
    timestamp_ns: Annotated[int, Meta(ge=0, le=2**62)]
    sample_uuid: str = ""
    finish_reason: str | None = None
    conversation_id: str | None = None
    data: Raw = Raw(b"null")


def events_in(path: Path) -> Iterator[Event]:
    """The events in the order of the file, up to the end of the session.

    Raises OSError for a file that cannot be read, ValueError with one line for another line than an
    event.
    """
    decoder, number = json.Decoder(Event), 0
    with open_regular(path, _MAX_EVENTS_BYTES) as file:
        while line := file.readline(_MAX_LINE_LENGTH):
            number += 1
            try:
                event = decoder.decode(line)
            # ValueError: bytes that are not UTF-8. RecursionError: members nested without end.
            except (DecodeError, ValueError, RecursionError) as error:
                raise ValueError(f"{path.name}: line {number:,} is not an event") from error
            if event.event_type == "session.ended":
                return
            yield event
