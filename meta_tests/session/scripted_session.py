"""Sessions on engines that do as they are told, with the real LoadGen."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pytest import MonkeyPatch

from meta_tests.made_runs import remote_run
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.protocol import (
    SPECULATIVE,
    EngineDescription,
    Likelihood,
    Listener,
    RemoteRun,
    RequestList,
    Score,
    ScoreRequest,
)
from mlperf_suite.errors import EngineDiedError, EngineError, UsageError
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.run_folder import RESERVED_FILE, read_summary
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.executor import Session
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Role, StepKey
from mlperf_suite.session.timing.forecast import planned
from mlperf_suite.settings import resolve_settings

LLAMA = "llama3.1-8b"
ACCURACY = RunKey(LLAMA, "Offline", "accuracy")
TEST06 = RunKey(LLAMA, "Offline", "test06")
PERFORMANCE = RunKey(LLAMA, "Offline", "performance")


class ScriptedEngine(StandInEngine):
    """Says what it was asked, and dies in the run that it is told to."""

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(Delays(), lambda prompt: [11, 12, 13])
        self._settings, self._dies_in = settings, dies_in
        self.batch_sizes: list[int] = []
        self.runs: list[str] = []

    @property
    def description(self) -> EngineDescription:
        settings: dict[str, object] = {SPECULATIVE: None, **self._settings}
        return EngineDescription("stand-in engine", "1", "told", True, 8192, settings)

    def run_begins(self, name: str, mode: str) -> None:
        self.runs.append(name)
        if name == self._dies_in:
            # Before LoadGen starts, which cannot be stopped again in this process.
            self._died = True
            raise EngineDiedError("died as told")

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        self.batch_sizes.append(len(requests))
        super().submit(requests, generation, listener, stream=stream)

    def score(self, requests: Iterator[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            tokens = len(request.prompt_token_ids)
            yield request.tag, Score((Likelihood(-1.0, True),) * 4, 1.0, tokens, 0)


class FasterEngine(ScriptedEngine):
    """Answers one request after another in its first run. The answers of each later run come
    together, `after_s` from its first request."""

    after_s: Sequence[float] = (0.5, 0.0)

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(settings, dies_in)
        self._free_at = 0.0
        self._together: dict[int, float] = {}

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        later = len(self.runs) - 2
        if later < 0:
            self._free_at = max(now, self._free_at) + 0.01
            return self._free_at, self._free_at
        end = self._together.setdefault(later, now + self.after_s[later])
        return end, end


class RemoteScriptedEngine(ScriptedEngine):
    """Tells of each run what comes next of `remote_runs`, the last of it again and again."""

    remote_runs: Sequence[RemoteRun] = (remote_run(),)

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(settings, dies_in)
        self.run_count = 0
        self._since: list[int] = []

    def take_remote_run(self) -> RemoteRun:
        is_idle = self.batch_sizes == self._since
        self._since = list(self.batch_sizes)
        if is_idle:
            # Asked before a run that nothing was sent before.
            return remote_run()
        self.run_count += 1
        return self.remote_runs[min(self.run_count, len(self.remote_runs)) - 1]


class ScriptedSession:
    """A suite on scripted engines. `loaded`: the role of each that was loaded, in order."""

    def __init__(self, suite: Session, loaded: list[Role], engines: list[Any]) -> None:
        self.suite, self.loaded, self.engines = suite, loaded, engines
        self.recorder = suite.recorder

    @property
    def folder(self) -> Path:
        return self.recorder.results[0].folder.path

    def summary(self, key: RunKey) -> Any:
        return self.recorder.summary(self.recorder.result_of(key))

    def generation_verdict(self) -> Verdict:
        """The verdict on how the answers of the accuracy run were generated."""
        verdicts = self.recorder.verdicts(ACCURACY)
        return next(v for v in verdicts if v.rule == "accuracy_generation")


Make = Callable[..., ScriptedSession]
"""`scripted_session` in a folder of the test's own; the sessions are closed after it."""


shared_tokenizer = cache(load_tokenizer)


def scripted_session(
    results: Path,
    *keys: StepKey,
    dies_in: str | None = None,
    does_not_load: Role | None = None,
    engine_settings: dict[str, object] | None = None,
    kind: Callable[[dict[str, object], str | None], Any] = ScriptedEngine,
    **options: Any,
) -> ScriptedSession:
    """A session that was planned and checked, and made nothing yet."""
    loaded: list[Role] = []
    engines: list[Any] = []

    def load(inputs: Inputs, request: EngineRequest) -> Any:
        loaded.append(request.role)
        if request.role == does_not_load:
            raise EngineError("no engine today")
        engines.append(kind(engine_settings or {}, dies_in))
        return engines[-1]

    settings = resolve_settings({"results_dir": str(results), "warmup": "0", **options}, {})
    suite = Session(settings, planned(settings, keys), load, ProgressDisplay())
    session = ScriptedSession(suite, loaded, engines)
    if obstacles := suite.obstacles():
        raise UsageError("; ".join(obstacles))
    return session


def check_made_as_planned(session: ScriptedSession, *keys: StepKey) -> None:
    """Make each key: the steps made are those planned, and each took a time."""
    suite, plan = session.suite, session.suite.plan
    for key in sorted(keys, key=plan.order_of):
        outcome = suite.make(key)
        assert outcome.ok, outcome.failure
    assert suite.plan == plan
    assert suite.steps_made == list(plan.steps)
    for result in suite.recorder.results:
        rows = [row for row in suite.recorder.summary(result).plan if "MMLU" not in row.what]
        assert all(row.took_s is not None for row in rows)


FULL = "report.html: No space left on device"


def full_disk(*arguments: object) -> None:
    raise OSError(28, "No space left on device", "report.html")


def told(folder: Path) -> tuple[str, str | None]:
    """The last words of a result that could not be written: its status and the reason."""
    assert not (folder / RESERVED_FILE).exists()
    summary = read_summary(folder)
    assert summary is not None
    return summary.meta.status, summary.meta.reason


def break_runs(monkeypatch: MonkeyPatch, error: BaseException) -> list[int]:
    """Let each LoadGen run raise this. Returns the attempts."""
    attempts = []

    def failing_run(*arguments: object, **keywords: object) -> None:
        attempts.append(1)
        raise error

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", failing_run)
    return attempts


def inputs(**options: Any) -> Inputs:
    return Inputs(resolve_settings(options, {}), [LLAMA3_1_8B, LLAMA3_1_8B_EDGE])


def own_data(folder: Path, samples: int) -> str:
    file = folder / f"{samples}.json"
    file.write_text(json.dumps([{"article": "a", "highlights": "b"}] * samples))
    return str(file)


def own_model(folder: Path, **changed: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**OFFICIAL.model_identity.shape, **changed}))
    (folder / "tokenizer.json").touch()
    return str(folder)
