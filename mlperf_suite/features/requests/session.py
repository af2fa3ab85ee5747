"""Writes requests.csv as a performance run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlperf_suite.session.companion import Companion, RunAtHand

if TYPE_CHECKING:
    from pathlib import Path

    from mlperf_suite.loadgen.runner import LoadRun
    from mlperf_suite.loadgen.timeline import Timeline


class KeptRequests(Companion):
    def made(self, run: RunAtHand, load_run: LoadRun) -> None:
        """Repeats have a file of their own. Raises OSError."""
        from mlperf_suite.features.requests.request_table import BY_LOADGEN, write_requests

        if run.key.mode == "performance" and load_run.timeline is not None:
            write_requests(run.folder, load_run.timeline, BY_LOADGEN)

    def timed(self, folder: Path, timeline: Timeline) -> None:
        from mlperf_suite.features.requests.request_table import BY_CLIENT, write_requests

        write_requests(folder, timeline, BY_CLIENT)


SESSION = KeptRequests
