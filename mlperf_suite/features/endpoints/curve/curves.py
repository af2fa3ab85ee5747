"""Measures a curve: one server at each of several fixed concurrencies, point by point.

The official client issues the requests (--client inference-endpoint), or else the suite's own, and
then every output says that it is not an MLPerf Endpoints result. Each point is kept in curve.json
once it ended, and an interrupted curve goes on with the next start.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark
from mlperf_suite.engines.protocol import Engine, RemoteEngine, RemoteRun, ServerView, TracingEngine
from mlperf_suite.errors import RunError
from mlperf_suite.features.chats.agent_replay import turn_timeout_s
from mlperf_suite.features.chats.agent_sessions import sessions_of
from mlperf_suite.features.chats.chat_client import ChatEndpoint
from mlperf_suite.features.endpoints.curve.agent_points import (
    ConversationPoints,
    saltable,
    sampling_of,
)
from mlperf_suite.features.endpoints.curve.closed_loop import (
    LoopTimes,
    Prompt,
    StopCondition,
    hold_concurrency,
)
from mlperf_suite.features.endpoints.curve.curve_accuracy import CurveAccuracy, token_ids_of
from mlperf_suite.features.endpoints.curve.curve_figures import (
    CurveFigures,
    CurvePoint,
    CurveRecord,
    PointAccuracy,
)
from mlperf_suite.features.endpoints.curve.curve_points import (
    BLOCKS,
    GAIN,
    OFFICIAL_CLIENT_START_S,
    PROBE_POINT_S,
    SMOKE_MAX_S,
    SMOKE_POINT_S,
    c_max_of,
    endless_order,
    growing_queue,
    next_probe,
    planned_points,
    point_of,
    regions_of,
    scored_points,
    tokens_per_s,
)
from mlperf_suite.features.endpoints.curve.official_points import (
    POINTS_FOLDER,
    PROBES_FOLDER,
    OfficialPoints,
)
from mlperf_suite.features.endpoints.official_client.client_job import whole_passes as passes_of
from mlperf_suite.features.endpoints.official_client.client_process import SILENCE_S
from mlperf_suite.features.endpoints.official_client.installation import find_official_client
from mlperf_suite.features.endpoints.official_client_results.series import SEED_SETS, min_duration_s
from mlperf_suite.features.endpoints.options import by_official_client
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.features.servers.server_metrics import view_of
from mlperf_suite.features.servers.source import endpoint_config
from mlperf_suite.results import typed_json
from mlperf_suite.results.comparability import differences, identity_of
from mlperf_suite.results.record import Result
from mlperf_suite.results.run_folder import (
    FINAL_STATUSES,
    read_config,
    read_object,
    read_summary,
    run_folders,
)
from mlperf_suite.results.schema import Config
from mlperf_suite.rules.limits import client_limits, held_back
from mlperf_suite.session.load_run import Observation, StepMaker
from mlperf_suite.session.plan import duration_words
from mlperf_suite.session.run_kind import Step

CURVE_JSON = "curve.json"
SEED_SET = SEED_SETS["A"]
_WARM_UP_REQUESTS = 2
_MIN_POINT_ANSWERS = 4
"""Of a point that the official client measures before any rate is known."""
_SALT_BYTES = 8
"""The series asks for a salt of at least 64 bits before a prompt that a KV cache could know."""


@dataclass
class Curves(StepMaker):
    """Looks for C_max, plans the points and measures them, each at its fixed concurrency.

    `config_json`: the settings of a benchmark's runs as used, with the loaded engine.
    """

    config_json: Callable[[Benchmark], dict[str, Any]]

    def make(self, step: Step, result: Result) -> CurveFigures:
        """Measure the curve of a result into its record, point by point.

        Raises RunError if no point could be measured, EngineError if the engine dies or hangs.
        """
        record = result.parts["curve"]
        assert isinstance(record, CurveRecord)
        curve = _Curve(self, result, record)
        curve.take_up_earlier()
        curve.warm_up()
        curve.search()
        curve.measure()
        if not record.figures.measured:
            reasons = [f"{point.concurrency}: {point.reason}" for point in record.figures.points]
            raise RunError(f"no point of the curve was measured: {reasons[0]}")
        return record.figures

    def official_points(self, result: Result) -> OfficialPoints | None:
        """What measures points with the official client; None for the suite's own."""
        settings, inputs = self.settings, self.inputs
        if not by_official_client(settings):
            return None
        config = endpoint_config(inputs)
        return OfficialPoints(
            find_official_client(),
            result.folder.path,
            tuple(target.url for target in config.targets),
            self.engine.description.model,
            inputs.tokenizer_folder,
            inputs.generation(result.benchmark),
            SEED_SET,
            "API_KEY" if settings.feature_options["api_key"] else None,
            settings.feature_options["endpoint_clients"] or 1,
            max(SILENCE_S, settings.engine_silence),
            self.display,
            lambda texts: [len(ids) for ids in token_ids_of(inputs, texts)],
            self.engine.metrics_readers() if isinstance(self.engine, EndpointEngine) else (),
        )

    def conversations(self, result: Result) -> ConversationPoints | None:
        """What measures points of a benchmark of several turns; None for any other."""
        if result.benchmark.run_kind == LOADGEN:
            return None
        engine, benchmark, inputs = self.engine, result.benchmark, self.inputs
        assert isinstance(engine, ChatEndpoint)
        longest = inputs.generation(benchmark).max_new_tokens
        fields, sampling = sampling_of(benchmark.id, longest)
        return ConversationPoints(
            saltable(sessions_of(inputs.samples(benchmark).items), self.settings.dataset),
            lambda connections: engine.chat(connections, fields),
            engine.metrics,
            sampling,
            max(turn_timeout_s(smoke=self.settings.smoke), self.settings.engine_silence),
        )

    def prompts(self, result: Result) -> Iterator[Prompt]:
        """The samples' prompts without end, for an endpoint each with a salt of its own."""
        benchmark = result.benchmark
        token_ids = self.inputs.prompts(benchmark)
        stops = self.inputs.stops(benchmark, "performance") or [""] * len(token_ids)
        salted = isinstance(self.engine, RemoteEngine)
        for index in endless_order(len(token_ids), SEED_SET.seeds["sample_index_rng_seed"]):
            yield self._salted(token_ids[index]) if salted else token_ids[index], stops[index]

    def _salted(self, prompt: Any) -> list[int]:
        """A prompt with a salt behind its first token, so that no cache knows the rest."""
        # In the client's own form, by which a judge of what was sent finds it.
        text = f"[{secrets.token_hex(_SALT_BYTES)}] "
        salt = self.inputs.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*prompt[:1], *salt, *prompt[1:]]


@dataclass
class _Curve:
    """One curve while it is measured. `throughput`: tokens/s by concurrency, from the probes or the
    points; 0 for one that was ended as its queue grew without end. `rates`: samples/s likewise."""

    maker: Curves
    result: Result
    record: CurveRecord
    throughput: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._official = self.maker.official_points(self.result)
        self._agents = self.maker.conversations(self.result)
        client = self._official.client.words if self._official else f"mlperf-suite {__version__}"
        self.record.figures = CurveFigures(
            client, rehearsal=self._official is None, cohort=SEED_SET.cohort
        )
        self._prompts = self.maker.prompts(self.result)
        self._accuracy = CurveAccuracy(self.maker.inputs, self.result.benchmark, self._official)

    # What is there already

    def take_up_earlier(self) -> None:
        """Take the points of the newest curve of the same system that was not completed."""
        maker, folder, benchmark = self.maker, self.result.folder.path, self.result.benchmark.id
        here = Config.read(maker.config_json(self.result.benchmark))
        for earlier in run_folders(folder.parent):
            curve = typed_json.read(CurveFigures, read_object(earlier / CURVE_JSON))
            summary = read_summary(earlier)
            if earlier == folder or not (curve and summary and summary.meta.benchmark == benchmark):
                continue
            if summary.meta.status in FINAL_STATUSES:
                return
            words = f"{earlier.name}: an unfinished curve"
            if curve.client != self.record.figures.client:
                maker.display.say(f"{words} by {curve.client}: left as it is")
                continue
            if curve.cohort != SEED_SET.cohort:
                maker.display.say(f"{words} of cohort {curve.cohort}, not {SEED_SET.cohort}: left")
                continue
            kept = identity_of(Config.read(read_config(earlier)))
            if unlike := differences(identity_of(here), kept):
                maker.display.say(f"{words} of another {unlike[0].name}: left as it is")
                continue
            points = tuple(_taken_from(earlier, p, folder) for p in curve.measured)
            self.record.figures = replace(self.record.figures, points=points)
            for point in points:
                self._learn(point)
            if points:
                maker.display.say(f"{words}: goes on with its {len(points)} points")
            return

    # The search for C_max

    def warm_up(self) -> None:
        """Have the first requests, which take longer than any later ones, answered unmeasured."""
        if self.maker.settings.warmup != 0:
            self.maker.display.begin(f"{self.result.benchmark.id} curve: warm-up")
            if self._agents is not None:
                self._agents.warm_up()
                return
            self._hold(_WARM_UP_REQUESTS, lambda times, now_s: True)

    def _hold(self, concurrency: int, enough: StopCondition) -> LoopTimes:
        maker = self.maker
        return hold_concurrency(
            maker.engine,
            self._prompts,
            maker.inputs.generation(self.result.benchmark),
            concurrency,
            enough,
            silence_s=maker.settings.engine_silence,
        )

    def search(self) -> None:
        """Double the concurrency until no higher one can matter. In smoke, each step is a point,
        and one that would take too long is left out."""
        is_smoke = self.maker.settings.smoke
        seconds = SMOKE_POINT_S if is_smoke else PROBE_POINT_S
        start_s = OFFICIAL_CLIENT_START_S if self._official is not None else 0.0
        expected_s = 0.0
        while (concurrency := next_probe(self.throughput)) is not None:
            if is_smoke and expected_s > SMOKE_MAX_S:
                self.maker.display.say(
                    f"concurrency {concurrency:,} is left out: it would take about "
                    f"{expected_s:.0f} s, and smoke takes {SMOKE_MAX_S:.0f} s for it at most"
                )
                break
            began_s = time.monotonic()
            point = self._point(concurrency, seconds, whole_passes=False)
            # Twice as many last answers take at most twice as long.
            expected_s = 2 * (time.monotonic() - began_s) - start_s - seconds
            if point.outcome == "failed":
                self._keep(point)
                break
            self._learn(point)
            if is_smoke:
                self._keep(point)
        c_max = c_max_of(self.throughput)
        if c_max is not None:
            self.record.figures = replace(self.record.figures, c_max=c_max)

    def _learn(self, point: CurvePoint) -> None:
        """Take up the throughput of a probe or of a point."""
        self.throughput[point.concurrency] = point.system_tps
        if point.duration_s:
            self.rates[point.concurrency] = point.completed / point.duration_s

    # The points

    def measure(self) -> None:
        """Measure the planned points between 1 and C_max that were not measured yet."""
        c_max = self.record.figures.c_max
        if c_max is None:
            return
        made = {point.concurrency for point in self.record.figures.points}
        planned = planned_points(c_max, made)
        ahead = [c for c in planned if c not in made]
        self._place(planned, c_max)
        seconds = sum(self._seconds(concurrency) for concurrency in ahead)
        if ahead:
            names = ", ".join(f"{concurrency:,}" for concurrency in ahead)
            more = f"{len(ahead)} more point{'' if len(ahead) == 1 else 's'}"
            self.maker.display.say(
                f"C_max {c_max:,}; {more}, at {names}: {duration_words(seconds)} "
                "and the last answers"
            )
        is_smoke = self.maker.settings.smoke
        scored = self._scored(planned)
        for concurrency in ahead:
            self._keep(
                self._point(concurrency, self._seconds(concurrency), whole_passes=not is_smoke)
            )
            if concurrency in scored:
                self._score(concurrency)
        # Those of the search and of an earlier session; another one where a planned one failed.
        for concurrency in self._scored([p.concurrency for p in self.record.figures.measured]):
            self._score(concurrency)

    def _scored(self, concurrencies: Sequence[int]) -> list[int]:
        """The concurrencies at which accuracy is gated; in smoke, C_max alone."""
        gated = scored_points(self.record.figures.c_max, concurrencies)
        return gated[-1:] if self.maker.settings.smoke else gated

    def _score(self, concurrency: int) -> None:
        """Score the answers at a point, if it was measured and is not scored yet. Those of agents
        are scored inline."""
        if self._agents is not None:
            return
        measured = {point.concurrency: point for point in self.record.figures.measured}
        point = measured.get(concurrency)
        if point is None or point.accuracy is not None:
            return
        name = f"accuracy at concurrency {concurrency:,}"
        self.maker.display.begin(f"{self.result.benchmark.id} {name}")
        try:
            accuracy = self._accuracy.of_point(self.maker.engine, concurrency, point.folder)
        except RunError as error:
            accuracy = PointAccuracy(reason=str(error))
        self.maker.display.say(f"{name}: {accuracy.words}")
        if accuracy.not_submittable and not self.result.not_submittable:
            self.result.not_submittable = accuracy.not_submittable
        self._keep(replace(point, accuracy=accuracy))

    def _seconds(self, concurrency: int) -> float:
        if self.maker.settings.smoke:
            return SMOKE_POINT_S
        return min_duration_s(concurrency, agentic=self._agents is not None)

    def _place(self, planned: list[int], c_max: int) -> None:
        """Have every planned point in the curve, each with its regions."""
        by_concurrency = {c: CurvePoint(c) for c in planned}
        by_concurrency |= {p.concurrency: p for p in self.record.figures.points}
        points = (replace(p, regions=regions_of(c_max, c)) for c, p in by_concurrency.items())
        ascending = tuple(sorted(points, key=lambda point: point.concurrency))
        self.record.figures = replace(self.record.figures, points=ascending)
        self._write()

    def _point(self, concurrency: int, seconds: float, *, whole_passes: bool) -> CurvePoint:
        """Hold a concurrency for some seconds. Raises EngineError if the engine dies or hangs."""
        maker, benchmark = self.maker, self.result.benchmark
        if self._official is not None:
            return self._official_point(self._official, concurrency, seconds, whole_passes)
        if self._agents is not None:
            return self._agent_point(self._agents, concurrency, seconds)
        name = f"{benchmark.id} at concurrency {concurrency:,}"
        observation = Observation(maker.engine, name, "performance")
        if isinstance(maker.engine, TracingEngine):
            maker.engine.take_trace()
        maker.display.begin(name)
        samples = len(maker.inputs.prompts(benchmark))
        below = (rate for c, rate in self.throughput.items() if c < concurrency)
        saturation = _Saturation(concurrency, seconds, max(below, default=0.0))

        def enough(times: LoopTimes, now_s: float) -> bool:
            if saturation.found(times, now_s):
                return True
            whole = not whole_passes or len(times.issued_s) % samples == 0
            return now_s >= seconds and whole

        times = self._hold(concurrency, enough)
        remote = observation.remote()
        faults = self._faults(observation, remote)
        point = _judged(times, concurrency, saturation.why, faults)
        point = replace(point, servers=_views(maker.engine, remote))
        maker.display.say(_point_line(point))
        return point

    def _agent_point(
        self, agents: ConversationPoints, concurrency: int, seconds: float
    ) -> CurvePoint:
        display = self.maker.display
        display.begin(f"{self.result.benchmark.id}, {concurrency:,} conversations")
        point = agents.measure(concurrency, seconds)
        display.say(_point_line(point))
        return point

    def _official_point(
        self, official: OfficialPoints, concurrency: int, seconds: float, whole_passes: bool
    ) -> CurvePoint:
        self.maker.display.begin(f"{self.result.benchmark.id} at concurrency {concurrency:,}")
        count = len(self.maker.inputs.prompts(self.result.benchmark))
        # The throughput grows with the concurrency, and a point must not be too short.
        above = [c for c in self.rates if c >= concurrency]
        rate = self.rates[min(above)] if above else max(self.rates.values(), default=0.0) * 1.5
        requests = max(concurrency, _MIN_POINT_ANSWERS, math.ceil(rate * seconds))
        if whole_passes:
            requests = passes_of(count, rate, seconds)
        # A row for each request: the client sends a row again as it is, with the same salt.
        prompts = (token_ids for token_ids, _ in itertools.islice(self._prompts, requests))
        is_probe = not (whole_passes or self.maker.settings.smoke)
        least_s, place = (
            (seconds if whole_passes else 0.0),
            PROBES_FOLDER if is_probe else POINTS_FOLDER,
        )
        point = official.measure(concurrency, prompts, requests, least_s, place)
        self.maker.display.say(_point_line(point))
        return point

    def _faults(self, observation: Observation, remote: RemoteRun | None) -> list[str]:
        """What keeps a point from having figures, besides a request that failed."""
        faults = list(remote.departures) if remote else []
        faults += filter(None, [held_back(remote.stream)]) if remote else []
        if remote and (limits := client_limits(remote.client, self.result.scenario)):
            # The machine of a smoke run may be the server's too, whose work delays the client.
            is_busy = any("of a core" in limit for limit in limits)
            faults += ["client-bound", *limits] if is_busy or not self.maker.settings.smoke else []
        if tokens := observation.cached_tokens(remote):
            faults.append(f"{tokens:,} prompt tokens from a cache")
        return faults

    def _keep(self, point: CurvePoint) -> None:
        figures = self.record.figures
        point = replace(point, regions=regions_of(figures.c_max, point.concurrency))
        others = (p for p in figures.points if p.concurrency != point.concurrency)
        points = tuple(sorted((*others, point), key=lambda point: point.concurrency))
        self.record.figures = replace(figures, points=points)
        self._write()

    def _write(self) -> None:
        folder = self.result.folder
        folder.write(CURVE_JSON, typed_json.to_json(self.record.figures))


def _taken_from(earlier: Path, point: CurvePoint, folder: Path) -> CurvePoint:
    """A point of an earlier curve in this one's folder, with the official client's files: the
    earlier run is removed once a later one has ended. Raises OSError."""
    place = Path(point.folder)
    if len(place.parts) < 2 or place.is_absolute() or ".." in place.parts:
        return replace(point, folder=earlier.name)
    shutil.copytree(earlier / place.parent, folder / place.parent, copy_function=_link)
    return point


def _link(source: str, target: str) -> None:
    """A second name of a file, whose events may take gigabytes; a copy where that is impossible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@dataclass
class _Saturation:
    """Finds early that a concurrency is past the knee: the wait for the first token grows without
    end, and the throughput is not above `best` tokens/s, that of a lower concurrency."""

    concurrency: int
    seconds: float
    best: float
    why: str = ""
    _blocks: int = 0

    def found(self, times: LoopTimes, now_s: float) -> bool:
        block_s = self.seconds / BLOCKS
        if not self.best or int(now_s / block_s) == self._blocks or now_s >= self.seconds:
            return bool(self.why)
        self._blocks = int(now_s / block_s)
        rate = tokens_per_s(times, now_s)
        words = growing_queue(times, self.concurrency, now_s, block_s)
        if words and rate <= GAIN * self.best:
            self.why = f"{words}, at {rate:,.1f} tokens/s; a lower concurrency has {self.best:,.1f}"
        return bool(self.why)


def _views(engine: Engine, remote: RemoteRun | None) -> tuple[ServerView, ...]:
    """What the servers, or the engine in this process, said of themselves."""
    if remote is not None:
        return tuple(e.server for e in remote.endpoints if e.server is not None)
    view = view_of(engine.take_trace().steps) if isinstance(engine, TracingEngine) else None
    return () if view is None else (view,)


def _judged(times: LoopTimes, concurrency: int, saturation: str, faults: list[str]) -> CurvePoint:
    if times.failure or not times.completed:
        reason = times.failure or "no request was answered"
        return CurvePoint(concurrency, "failed", reason=reason, completed=times.completed, failed=1)
    if faults:
        reason = "; ".join(faults)
        return CurvePoint(concurrency, "failed", reason=reason, completed=times.completed)
    if saturation:
        return CurvePoint(
            concurrency, "over-saturated", reason=saturation, completed=times.completed
        )
    return point_of(times.answered(), times.issuing_s, concurrency)


def _point_line(point: CurvePoint) -> str:
    name = f"concurrency {point.concurrency:,}"
    if point.outcome != "measured":
        return f"{name}: {point.outcome}: {point.reason}"
    ttft_ms = point.ttft_p90_ms
    ttft = point.reason if ttft_ms is None else f"TTFT p90 {ttft_ms:,.0f} ms"
    return (
        f"{name}: {point.system_tps:,.1f} tokens/s, {point.tps_per_user:,.2f} per user, "
        f"{ttft}, {point.completed:,} answers"
    )
