"""The caching audit with the real LoadGen: on engines with and without a cache, and with noise."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from meta_tests.plugin.pytest_output import collected_tests
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import Listener, RequestList
from mlperf_suite.features.caching_audit.audit import median_sample
from mlperf_suite.features.caching_audit.block_times import ANSWER_TOKENS, LOOKS, blocks_s
from mlperf_suite.features.caching_audit.figures import PART, CachingFigures
from mlperf_suite.features.caching_audit.kind import CachingKey
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.results.run_folder import changed_since_run
from mlperf_suite.rules.registry import rules_of
from mlperf_suite.session.executor import Session
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.settings import resolve_settings

LLAMA = "llama3.1-8b"
AUDIT = "mlperf_suite.features.caching_audit.audit"
KEY = CachingKey(LLAMA, "Offline")
PROMPT_S, CACHED_S = 0.04, 0.0005
"""Drawn, and written into LoadGen's log in the place of the time that passed."""


class ComputingEngine(StandInEngine):
    """Computes one prompt after another, and takes from its cache what it has computed before.

    `cache`: none, one of those under way together (which ends with each query), or one of all
    answers that is counted. `noise`: what the time of each query is multiplied by.
    """

    def __init__(self, cache: str = "none", noise: Callable[[], float] = lambda: 1.0) -> None:
        super().__init__(Delays(), lambda prompt: [11, 12, 13])
        self._cache, self._noise = cache, noise
        self._prompts: set[tuple[int, ...]] = set()
        self.spent_s = 0.0
        self.batches: list[list[tuple[int, ...]]] = []
        self.generations: set[tuple[int, int]] = set()

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        prompts = [tuple(request.prompt_token_ids) for request in requests]
        self.batches.append(prompts)
        self.generations.add((generation.min_new_tokens, generation.max_new_tokens))
        if self._cache == "under way":
            self._prompts.clear()
        self.spent_s, factor = 0.0, self._noise()
        for prompt in prompts:
            cached = self._cache != "none" and prompt in self._prompts
            self._prompts.add(prompt)
            if cached and self._cache == "counted":
                self.cached_prompt_tokens += len(prompt)
            self.spent_s += (CACHED_S if cached else PROMPT_S) * factor
        super().submit(requests, generation, listener, stream=stream)

    def timed_run(self, *arguments: Any, **keywords: Any) -> LoadRun:
        """A run of the real LoadGen, whose log has the time that was drawn."""
        run = run_loadgen(*arguments, **keywords)
        run.logs.detail.values["result_max_latency_ns"] = self.spent_s * 1e9  # type: ignore[index]
        return run


class Audited:
    """An audit that was made: its suite, its engine and what came of it."""

    def __init__(self, suite: Session, engine: ComputingEngine) -> None:
        self.suite, self.engine = suite, engine
        result = suite.recorder.result_of(KEY)
        self.folder, self.summary = result.folder.path, suite.recorder.summary(result)
        self.not_passed = {v.rule: v for v in suite.recorder.verdicts(KEY) if not v.passed}

    @property
    def figures(self) -> CachingFigures:
        figures: CachingFigures = self.summary.parts[PART]
        return figures


MakeAudit = Callable[..., Audited]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeAudit]:
    suites: list[Session] = []

    def make(**options: Any) -> Audited:
        engine = ComputingEngine(**options)
        values = {"results_dir": str(tmp_path_factory.mktemp("results"))}
        plan = plan_session(Selection([KEY]))
        suite = Session(resolve_settings(values, {}), plan, lambda *_: engine, ProgressDisplay())
        suites.append(suite)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mlperf_suite.session.load_run.run_loadgen", engine.timed_run)
            patch.setattr(f"{AUDIT}.secrets.randbits", lambda bits: 16)
            outcome = suite.make(KEY)
        assert outcome.ok, outcome.failure
        return Audited(suite, engine)

    yield make
    for suite in suites:
        suite.close()


@pytest.fixture(scope="module")
def without(audit: MakeAudit) -> Audited:
    return audit()


# What it finds


def test_an_engine_without_a_cache_does_not_fail(without: Audited) -> None:
    assert without.not_passed == {} and without.figures.finding == "no caching"
    assert without.summary.meta.status == "complete"
    assert without.suite.steps_made == list(without.suite.plan.steps)


@pytest.mark.parametrize(
    ("cache", "failures"),
    [("under way", {"caching_speed"}), ("counted", {"caching_speed", "caching_prompt_tokens"})],
)
def test_a_cache_fails(cache: str, failures: set[str], audit: MakeAudit) -> None:
    outcome = audit(cache=cache)
    assert outcome.not_passed.keys() == failures, outcome.not_passed
    assert {verdict.status for verdict in outcome.not_passed.values()} == {"failed"}
    assert outcome.summary.meta.status == "invalid"
    assert outcome.figures.finding == "caching"
    assert (outcome.figures.low or 0) > 0.1


def test_noise_leaves_it_open(audit: MakeAudit) -> None:
    """Not judged, with the interval: neither a pass nor a failure."""
    chance = random.Random(16)
    outcome = audit(noise=lambda: chance.lognormvariate(-2, 0.8))
    (verdict,) = outcome.not_passed.values()
    assert (verdict.rule, verdict.status) == ("caching_speed", "not judged")
    assert outcome.summary.meta.status == "complete"
    figures = outcome.figures
    assert figures.finding == "cannot tell"
    assert len(figures.mix_ms) == len(figures.same_ms) == LOOKS[-1]
    assert figures.low is not None and figures.high is not None and figures.low < 0.1 < figures.high
    interval = f"{figures.low:.1%} to {figures.high:.1%}"
    assert interval in verdict.line and "cannot tell" in verdict.line


# How it is made


def test_its_blocks_differ_in_caching_alone(without: Audited) -> None:
    """Each block is as many prompts of one length, answered in as many tokens; every prompt of a
    mix is sent once in the session, and none is the data's own."""
    own = without.suite.inputs.prompts(BENCHMARKS[LLAMA])
    same = tuple(own[median_sample(own)])
    is_same = [prompts[0] == same for prompts in without.engine.batches]
    # Each pair is a block of each kind, in an order by chance.
    assert all(first != second for first, second in zip(is_same[::2], is_same[1::2], strict=True))
    assert {*is_same[2::2]} == {True, False}
    mixes = [prompts for prompts in without.engine.batches if prompts[0] != same]
    sames = [prompts for prompts in without.engine.batches if prompts[0] == same]
    pairs = len(without.figures.mix_ms)
    assert pairs in LOOKS
    assert len(mixes) == len(sames) == 1 + pairs
    assert {len(prompts) for prompts in without.engine.batches} == {without.figures.at_once}
    assert all(set(prompts) == {same} for prompts in sames)
    fresh = [prompt for prompts in mixes for prompt in prompts]
    assert {len(prompt) for prompt in fresh} == {len(same)} == {without.figures.prompt_tokens}
    assert len(set(fresh)) == len(fresh) and not set(fresh) & set(map(tuple, own))
    # They begin and end as all of the data do.
    assert {(prompt[:8], prompt[-4:]) for prompt in fresh} == {(same[:8], same[-4:])}
    assert without.engine.generations == {(ANSWER_TOKENS, ANSWER_TOKENS)}


def test_its_logs_are_kept_and_are_no_result(without: Audited) -> None:
    blocks = sorted(path.name for path in (without.folder / "Caching").iterdir())
    assert len(blocks) == 2 * (1 + len(without.figures.mix_ms))
    assert {name.partition("-")[2] for name in blocks} == {"mix", "same"}
    assert changed_since_run(without.folder) == []
    assert without.summary.logs == ()
    assert judge_folder(without.folder) == []


def test_its_plan_is_one_step_whose_time_is_told() -> None:
    *preparation, blocks = plan_session(Selection([KEY])).steps
    assert [step.kind for step in preparation] == ["load", "probe"]
    assert "caching audit" in blocks.what
    small_s, large_s = (
        blocks_s(EngineSpeed(0.0005, 0.04, 0.001), 365, at_once) for at_once in (2, 4)
    )
    assert 2 < small_s < large_s < 30


def test_the_caching_audit_makes_no_other_selection_longer() -> None:
    tests = collected_tests("-m", "datacenter or edge or accuracy or performance")
    assert len(tests) > 100
    assert not [test for test in tests if "test_caching" in test]


@pytest.mark.parametrize(
    ("options", "audited"), [((), "llama3.1-8b"), (("--category", "edge"), "llama3.1-8b-edge")]
)
def test_the_caching_audit_is_made_once_for_a_model(options: tuple[str, ...], audited: str) -> None:
    """The benchmarks of the smoke profile answer with the same model."""
    tests = collected_tests(
        "-m", "compliance", "mlperf_suite/features/caching_audit/tests", *options
    )
    assert len(tests) == len(rules_of("caching"))
    assert {test.partition("[")[2] for test in tests} == {f"{audited}]"}
