"""What a report says of recorded conversations: the score, and times by turn and by context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlperf_suite.features.chats.figures import PART, ReplayFigures, TurnTimes
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Paragraph,
    Section,
    count,
    notes,
    record_table,
    time_cell,
)
from mlperf_suite.results.schema import Config, Percentiles, Summary

_SCORE = (
    "The score compares the programs that a turn's bash calls start with those of the recorded "
    "answer (multiset intersection over union), averaged over the turns whose recorded answer "
    "starts any. No gate judges it. The suite timed all turns, without LoadGen."
)


class ReplayReport(FeatureReport):
    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        replay = summary.parts.get(PART)
        return [] if replay is None else _sections(replay)

    def closing(self, summary: Summary) -> list[Line]:
        replay = summary.parts.get(PART)
        return [] if replay is None else [Line("turns", _words(replay))]


REPORT = ReplayReport()


def _sections(replay: ReplayFigures) -> list[Section]:
    """The replay: its score, and the times of its turns by position and by context."""
    blocks: list[Block] = [Paragraph(f"{_words(replay)}.")]
    for title, groups in (("turn", replay.by_turn), ("context, tokens", replay.by_context)):
        rows = list(_rows(title, groups))
        blocks += record_table(rows, [title], style="wide broad") if rows else []
    return [Section("The conversations", [*blocks, *notes([_SCORE, _cache_words(replay)])])]


def _words(replay: ReplayFigures) -> str:
    """The counts and the score, in a line."""
    score = "none" if replay.score is None else f"{replay.score:.4f}"
    reference = replay.reference_score
    of_reference = "" if reference is None else f" (reference run {reference:.4f})"
    turns = f"{count(replay.conversations, 'conversation')}, {count(replay.turns, 'turn')}"
    return f"{turns}, {replay.missing:,} missing; inline score {score}{of_reference}"


def _cache_words(replay: ReplayFigures) -> str:
    if replay.cached_first is None:
        return "The server does not report cached tokens."
    return (
        f"The server took {replay.cached_first:,} prompt tokens of first turns from a cache that "
        "another conversation had filled."
    )


def _rows(title: str, groups: Mapping[str, TurnTimes]) -> Iterator[dict[str, Cell]]:
    for name, times in groups.items():
        row: dict[str, Cell] = {title: name, "turns": f"{times.turns:,}"}
        for word, values in (("TTFT", times.ttft_ms), ("TPOT", times.tpot_ms)):
            row |= {f"{word} {at}": _cell(values, at) for at in ("p50", "p90")}
        yield row


def _cell(values: Percentiles, name: str) -> str:
    return time_cell(values.get(name)) if name in values else ""
