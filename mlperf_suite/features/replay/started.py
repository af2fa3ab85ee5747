"""How a replay was started: in its summary, and on its page as a block to copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlperf_suite.reports.run_report import reproduction
from mlperf_suite.reports.sections import Section
from mlperf_suite.results.schema import Meta
from mlperf_suite.session.typed_command import this_command

_NAMES = ("command", "suite_version", "suite_commit")


def started_by() -> dict[str, str | None]:
    """The members of the summary, as those of `meta` in summary.json."""
    meta = this_command()
    return {name: getattr(meta, name) for name in _NAMES}


def how_started(summary: Mapping[str, Any]) -> list[Section]:
    """The section of the page; none for a summary without these members."""
    command, version, commit = (summary.get(name) for name in _NAMES)
    return reproduction(Meta(command=command, suite_version=version, suite_commit=commit))
