"""Which earlier runs are of the same system, so that Server may take its rate from them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.session.scripted_session import inputs
from meta_tests.session.timing.kept_offline_run import (
    config_of,
    keep_offline_run,
    settings_of,
    takes_a_kept_rate,
)
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines import vllm_environment
from mlperf_suite.hardware import cpu_computes_bf16
from mlperf_suite.loadgen.load_plan import SMOKE, RunKey
from mlperf_suite.results.run_folder import CONFIG_JSON, SUMMARY_JSON, read_summary, write_json
from mlperf_suite.results.schema import Config
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection, Step
from mlperf_suite.session.timing.earlier_runs import kept_rate, kept_samples
from mlperf_suite.session.timing.estimate import (
    EngineSpeed,
    Estimator,
    TokenLengths,
    offline_qps,
    size_that_fits,
)
from mlperf_suite.session.timing.forecast import forecast, planned
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.settings import resolve_settings

OFFLINE = RunKey(LLAMA3_1_8B.id, "Offline", "performance")
SERVER = RunKey(LLAMA3_1_8B.id, "Server", "performance")


def test_a_profiled_run_gives_no_rate(tmp_path: Path) -> None:
    """Nor does one whose settings are lost."""
    keep_offline_run(tmp_path)
    config = Config.read(config_of(settings_of(tmp_path)))
    assert kept_rate(tmp_path, LLAMA3_1_8B.id, config) == 5.0
    file = next(tmp_path.glob(f"*/{SUMMARY_JSON}"))
    summary = read_summary(file.parent)
    assert summary is not None
    profiled = replace(summary, meta=replace(summary.meta, profiler="torch"))
    write_json(file, profiled.as_json())
    assert kept_rate(tmp_path, LLAMA3_1_8B.id, config) is None
    write_json(file, summary.as_json())
    next(tmp_path.glob(f"*/{CONFIG_JSON}")).unlink()
    assert not takes_a_kept_rate(settings_of(tmp_path))


def test_a_run_has_the_samples_of_the_last_one_that_it_can_be_compared_with(tmp_path: Path) -> None:
    keep_offline_run(tmp_path)
    for options, samples in (({}, 48), ({"max_new_tokens": "16"}, None)):
        config = Config.read(config_of(settings_of(tmp_path, **options)))
        assert kept_samples(tmp_path, (LLAMA3_1_8B.id, "Offline"), config) == samples


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({"engine_arg": ["kv_cache_dtype=fp8"]}, False),
        ({"gpu_memory_utilization": "0.5"}, False),
        ({"precision": "bf16"}, False),
        ({"max_new_tokens": "16"}, False),
        ({"mode": "performance", "keep_all": "0", "repeat": "3"}, True),
        ({"benchmark": ["llama3.1-8b", "llama2-70b-99"]}, True),
    ],
)
def test_plan_and_session_agree(tmp_path: Path, options: dict[str, Any], takes: bool) -> None:
    """The plan knows only the settings; the session also has the engine's own description."""
    keep_offline_run(tmp_path)
    settings = settings_of(tmp_path, **options)
    loaded = Config.read(config_of(settings))
    assert (kept_rate(tmp_path, LLAMA3_1_8B.id, loaded) is not None) is takes
    assert takes_a_kept_rate(settings) is takes


# What is told of the time before anything answered


@pytest.mark.parametrize("same", [True, False])
def test_a_run_in_another_precision_of_this_cpu_teaches_nothing(tmp_path: Path, same: bool) -> None:
    """ONEDNN_MAX_CPU_ISA may keep it from bf16 in one session and not in the next."""
    settings = settings_of(tmp_path)
    keep_offline_run(tmp_path)
    file = next(tmp_path.glob(f"*/{CONFIG_JSON}"))
    config = json.loads(file.read_text())
    reason = cpu_computes_bf16()[1] if same else "ONEDNN_MAX_CPU_ISA=AVX2 keeps oneDNN from bf16"
    config["engine"]["settings"]["dtype_why"] = f"auto: {reason}"
    write_json(file, config)
    assert forecast(settings, planned(settings, [OFFLINE])).kept is same


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.32.0+cpu", "estimated from the embedded model on 2 cores"),
        ("0.32.0", "estimated once the engine is loaded"),
    ],
)
def test_the_speed_of_cpus_is_not_expected_of_a_build_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, words: str
) -> None:
    monkeypatch.setattr(vllm_environment, "version", lambda _: version)
    settings = settings_of(tmp_path)
    assert words in forecast(settings, planned(settings, [OFFLINE])).source


def test_answers_with_a_long_tail_are_planned_for_with_more_headroom() -> None:
    """Too long a run only costs time, one below ten minutes is INVALID."""
    assert (offline_qps(10.0), offline_qps(10.0, tail=True)) == (10.5, 15.0)


@pytest.mark.parametrize("samples_per_s", [50.0, 1000.0, 5000.0])
def test_a_smoke_run_on_a_fast_engine_lasts_its_seconds_and_not_twice_as_long(
    samples_per_s: float,
) -> None:
    """Few samples show less than a GPU's rate: each run takes a third of a second beside it."""

    def run_s(samples: float) -> float:
        return 0.3 + samples / samples_per_s

    def planned_samples() -> float:
        qps = sizing.target_qps(OFFLINE)
        assert qps is not None
        # LoadGen plans for a tenth more (loadgen/issue_query_controller.cc).
        return 1.1 * qps * least_s

    least_s = SMOKE["Offline"].min_duration_ms / 1000
    sizing = RunSizing(
        Inputs(resolve_settings({}, {}), [LLAMA3_1_8B]), plan_session(Selection([OFFLINE])), {}
    )
    sizing.learn(Step("rate", OFFLINE, "a rate"), 84 / run_s(84))
    first = planned_samples()
    if run_s(first) < least_s:
        sizing.correct(OFFLINE, first / run_s(first))
    assert least_s <= run_s(planned_samples()) < 2 * least_s


def test_a_slow_machine_is_given_more_time_for_few_samples() -> None:
    # 32 samples fit into 15 s at 0.4 s each; at 0.7 s more time is given for 24 of them.
    for each_s, taken in ((0.1, 84), (0.4, 32), (0.7, 24), (1.8, 16), (4.0, 16)):
        size = size_that_fits(84, each_s.__mul__)
        assert size.samples == taken
    assert size.why == "16 of 84 samples: about 64 s a run on this machine"
    # SingleStream asks at least 64 queries one by one: fewer samples would save no time.
    assert size_that_fits(22, lambda n: 300.0).samples == 22
    assert size_that_fits(22, lambda n: 300.0 + n).samples == 22


@pytest.mark.parametrize(
    ("each_s", "kept", "taken"),
    [(0.7, 48, 48), (0.1, 24, 24), (1.8, 16, 16), (0.4, 8, 32), (1.8, 84, 16)],
)
def test_equal_commands_take_as_many_samples_as_the_last_run(
    each_s: float, kept: int, taken: int
) -> None:
    """Unless these are too few where more fit, or take too long now."""
    place = (LLAMA3_1_8B.id, "Offline")
    estimator = Estimator(
        inputs().settings,
        EngineSpeed(each_s / 100, 0.0, 0.0),
        lambda benchmark, mode: TokenLengths([100] * 84, 1),
        lambda benchmark, mode: 84,
        {},
        lambda kind: None,
        {place: kept},
    )
    size = estimator.size(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"))
    assert size.samples == taken
