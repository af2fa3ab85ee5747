"""Measures a curve's points with MLCommons' official HTTP client, whose files are kept."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import RunError, SuiteError
from mlperf_suite.features.endpoints.curve.curve_figures import (
    SCORED_FOLDER,
    CurveBlock,
    CurvePoint,
)
from mlperf_suite.features.endpoints.curve.curve_points import point_of
from mlperf_suite.features.endpoints.official_client.client_answers import (
    read_answers,
    request_times,
)
from mlperf_suite.features.endpoints.official_client.client_job import (
    PERFORMANCE_DATA,
    OfficialClientData,
    OfficialClientJob,
    OfficialClientLoad,
)
from mlperf_suite.features.endpoints.official_client.client_process import (
    OfficialClientProgress,
    run_official_client,
)
from mlperf_suite.features.endpoints.official_client.installation import OfficialClientInstallation
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    Distribution,
    ResultSummary,
    read_typed,
)
from mlperf_suite.features.endpoints.official_client_results.series import SeedSet
from mlperf_suite.features.servers.server_metrics import Reading, ServerWatch
from mlperf_suite.session.progress_display import ProgressDisplay

POINTS_FOLDER, PROBES_FOLDER = "points", "probes"
"""In a curve's folder: a folder for each point, with the client's files in `report`; and those of
the search for C_max, which are no points."""
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class OfficialPoints:
    """Points with the official client, in a curve's folder.

    `urls`: of the servers. `model`: its name there. `tokenizer`: the folder of its tokenizer.
    `key_variable`: the environment variable with the bearer token, None without one. `workers`: the
    client's processes. `silence_s`: how long it may print nothing. `count_tokens`: of each text.
    `readers`: of each server's metrics, as for `ServerWatch`.
    """

    client: OfficialClientInstallation
    folder: Path
    urls: tuple[str, ...]
    model: str
    tokenizer: Path | None
    generation: Generation
    seed_set: SeedSet
    key_variable: str | None
    workers: int
    silence_s: float
    display: ProgressDisplay
    count_tokens: Callable[[Sequence[str]], Sequence[int]]
    readers: Sequence[Callable[[], Reading]] = ()

    def measure(
        self,
        concurrency: int,
        prompts: Iterable[Sequence[int]],
        requests: int,
        least_s: float,
        place: str = POINTS_FOLDER,
    ) -> CurvePoint:
        """Run one point into a folder in `place`, until so many requests are answered.

        `prompts`: one for each request, read once.
        `least_s`: the minimum duration that the configuration names, in s. A client that fails
        makes a failed point; a full disk ends the curve, by OSError.
        """
        load = OfficialClientLoad(concurrency=concurrency, requests=requests, least_s=least_s)
        job = self._job(load, OfficialClientData(prompts=prompts))
        run_folder = self._new_folder(place, concurrency)
        try:
            with contextlib.ExitStack() as stack:
                watches = [stack.enter_context(ServerWatch(read)) for read in self.readers]
                report = run_official_client(
                    self.client,
                    job,
                    run_folder,
                    on_progress=self._progress,
                    silence_s=self.silence_s,
                )
                views = [view for watch in watches if (view := watch.view()) is not None]
        except SuiteError as error:
            return CurvePoint(concurrency, "failed", reason=str(error))
        folder = str(report.relative_to(self.folder.absolute()))
        point = point_of_summary(report, concurrency, folder)
        if point.outcome != "measured":
            return point
        return replace(point, blocks=self._blocks(report, concurrency), servers=tuple(views))

    def _blocks(self, report: Path, concurrency: int) -> tuple[CurveBlock, ...]:
        """The parts of a point, from what became of each request; none if that is not known."""
        with contextlib.suppress(RunError):
            answers = read_answers(report).get(PERFORMANCE_DATA, [])
            if answers and all(answer.first_ns is not None for answer in answers):
                times = request_times(answers, self.count_tokens([a.text for a in answers]))
                issuing_s = float(times.issued_ms.max()) / 1000
                return point_of(times, issuing_s, concurrency).blocks
        return ()

    def _job(self, load: OfficialClientLoad, performance: OfficialClientData) -> OfficialClientJob:
        seeds = self.seed_set.seeds
        return OfficialClientJob(
            name=f"concurrency {load.concurrency}",
            urls=self.urls,
            model=self.model,
            tokenizer=self.tokenizer,
            load=load,
            performance=performance,
            generation=self.generation,
            max_new_tokens=self.generation.max_new_tokens,
            seeds=(seeds["scheduler_rng_seed"], seeds["sample_index_rng_seed"]),
            workers=self.workers,
            key_variable=self.key_variable,
        )

    def score(self, concurrency: int, data: OfficialClientData, scorer: str, point: Path) -> Path:
        """Have the accuracy data answered at a concurrency; returns the client's folder.

        The client has no accuracy run at a fixed concurrency alone: a request for each user comes
        before it. `scorer`: the client's name of one. `point`: the folder of the point's files,
        beside which those of this run are. Raises OfficialClientRunError, OSError.
        """
        performance = OfficialClientData(prompts=itertools.islice(data.prompts, concurrency))
        load = OfficialClientLoad(concurrency=concurrency, requests=concurrency)
        job = replace(self._job(load, performance), accuracy=data, scorer=scorer)
        place = self.folder.absolute() / point.parent
        names = (f"{SCORED_FOLDER}{f'-{n}' if n > 1 else ''}" for n in itertools.count(1))
        folder = next(place / name for name in names if not (place / name).exists())
        return run_official_client(
            self.client, job, folder, on_progress=self._progress, silence_s=self.silence_s
        )

    def _progress(self, progress: OfficialClientProgress) -> None:
        self.display.requests(progress.completed, progress.total, progress.failed)

    def _new_folder(self, place: str, concurrency: int) -> Path:
        """A folder that is not there yet: a probe and a point may have the same concurrency."""
        base = self.folder.absolute() / place
        names = (f"{concurrency:05}{f'-{n}' if n > 1 else ''}" for n in itertools.count(1))
        return next(base / name for name in names if not (base / name).exists())


def point_of_summary(report: Path, concurrency: int, folder: str) -> CurvePoint:
    """The figures of a point from the client's result_summary.json."""
    file = report / "performance" / "result_summary.json"
    summary, fault = read_typed(file, ResultSummary)
    if summary is None:
        return CurvePoint(concurrency, "failed", reason=fault, folder=folder)
    completed, failed = summary.n_samples_completed, summary.n_samples_failed
    reasons = {
        f"{failed:,} requests failed": failed,
        "no request was answered": not completed,
        f"the run is {summary.state}, not complete": not summary.complete,
        "no duration": not summary.duration_ns,
    }
    reason = next((words for words, holds in reasons.items() if holds), "")
    return CurvePoint(
        concurrency,
        "failed" if reason else "measured",
        reason=reason,
        folder=folder,
        duration_s=(summary.duration_ns or 0) / 1e9,
        completed=completed,
        failed=failed,
        output_tokens=round(summary.output_sequence_lengths.total or 0.0),
        tpot_p50_ms=_ms(summary.tpot, "50.0"),
        tpot_p90_ms=_ms(summary.tpot, "90.0"),
        ttft_p50_ms=_ms(summary.ttft, "50.0"),
        ttft_p90_ms=_ms(summary.ttft, "90.0"),
    )


def _ms(times: Distribution, percent: str) -> float | None:
    value = times.percentiles.get(percent)
    return None if value is None else value / _NS_PER_MS
