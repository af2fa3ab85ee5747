"""Writes requests.csv as a performance run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlperf_suite.session.companion import Companion, RunAtHand

if TYPE_CHECKING:
    from mlperf_suite.loadgen.runner import LoadRun


class KeptRequests(Companion):
    def made(self, run: RunAtHand, load_run: LoadRun) -> None:
        """Repeats have a file of their own. Raises OSError."""
        from mlperf_suite.features.requests.request_table import write_requests

        if run.key.mode == "performance" and load_run.timeline is not None:
            write_requests(run.folder, load_run.timeline)


SESSION = KeptRequests
