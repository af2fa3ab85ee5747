"""What became of each request of a run of the official client, from its events.jsonl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import DecodeError, json

from mlperf_suite.benchmarks.request_times import RequestTimes
from mlperf_suite.errors import RunError
from mlperf_suite.features.endpoints.official_client_results.event_lines import (
    answer_text,
    events_in,
)
from mlperf_suite.untrusted_files import read_regular

_NS_PER_MS = 1e6
EVENTS_FILE, INDEX_FILE = "events.jsonl", "sample_idx_map.json"


@dataclass(slots=True)
class OfficialClientAnswer:
    """A request that ended, or of which that is not known yet. `sample`: its number in the data.

    Times in ns of the client's clock; `first_ns` is None for an answer that was not streamed.
    `text`: of the answer, "" for a request that failed.
    """

    sample: int
    issued_ns: int
    first_ns: int | None = None
    ended_ns: int | None = None
    text: str = ""


def read_answers(report: Path) -> dict[str, list[OfficialClientAnswer]]:
    """By data set, the requests that ended, in the order of their ends.

    Raises RunError for files that cannot be read.
    """
    try:
        maps = json.decode(read_regular(report / INDEX_FILE), type=dict[str, dict[str, int]])
        return _answers(report / EVENTS_FILE, maps)
    except OSError as error:
        raise RunError(f"{report}: {error.strerror or error}") from None
    except (DecodeError, ValueError, RecursionError):
        raise RunError(f"{report}: {INDEX_FILE} or {EVENTS_FILE} cannot be read") from None


def _answers(path: Path, maps: dict[str, dict[str, int]]) -> dict[str, list[OfficialClientAnswer]]:
    places = {uuid: (name, number) for name, of in maps.items() for uuid, number in of.items()}
    open_requests: dict[str, OfficialClientAnswer] = {}
    ended: dict[str, list[OfficialClientAnswer]] = {name: [] for name in maps}
    for event in events_in(path):
        uuid, now_ns = event.sample_uuid, event.timestamp_ns
        if uuid not in places:
            continue
        name, number = places[uuid]
        request = open_requests.setdefault(uuid, OfficialClientAnswer(number, now_ns))
        if event.event_type == "sample.recv_first":
            request.first_ns = now_ns
        elif event.event_type == "sample.complete":
            request.ended_ns, request.text = now_ns, answer_text(event.data).whole
            ended[name].append(open_requests.pop(uuid))
    return ended


def request_times(answers: Sequence[OfficialClientAnswer], tokens: Sequence[int]) -> RequestTimes:
    """Their times since the first one was issued; at least one answer. `tokens`: of each."""
    import numpy as np

    begin_ns = min(answer.issued_ns for answer in answers)
    columns = zip(*((a.issued_ns, a.first_ns, a.ended_ns) for a in answers), strict=True)
    # Whole ns until here: as float they would not be exact.
    issued, first, ended = (
        np.array([math.nan if ns is None else (ns - begin_ns) / _NS_PER_MS for ns in column])
        for column in columns
    )
    return RequestTimes(issued, first, ended, np.array(tokens))


def texts_by_sample(answers: Sequence[OfficialClientAnswer]) -> dict[int, str]:
    """The text that answered each sample; one without an answer is missing."""
    return {answer.sample: answer.text for answer in answers}
