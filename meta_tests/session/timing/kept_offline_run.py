"""A valid Offline run among the results, from which a later session may take its rate."""

from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.run_folder import CONFIG_JSON, SUMMARY_JSON, write_json
from mlperf_suite.results.schema import Config, Meta, PerformanceFigures, Run, Summary
from mlperf_suite.session.timing.earlier_runs import kept_rate
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.session.timing.forecast import planned
from mlperf_suite.settings import Settings, resolve_settings

SERVER = RunKey(LLAMA3_1_8B.id, "Server", "performance")
SPEED = EngineSpeed(0.001, 0.01, 0.002, 128)


def settings_of(results: Path, **options: Any) -> Settings:
    return resolve_settings({"results_dir": str(results), **options}, {})


def config_of(settings: Settings, **described: Any) -> dict[str, Any]:
    """What a run of these settings leaves as its config.json, and what its engine tells."""
    described = {"dtype": "bfloat16", **described}
    engine = {"name": "an engine", "version": "1", "stand_in": False, "settings": described}
    speed = {name: getattr(SPEED, name) for name in SPEED.__slots__}
    requested_settings = settings.as_json(LLAMA3_1_8B)
    return {"settings": requested_settings, "engine": engine, "speed": speed}


def keep_offline_run(results: Path, **options: Any) -> None:
    """Leave a valid Offline run of these options among the results."""
    folder = results / "20261121-101500-llama3.1-8b-offline"
    folder.mkdir(parents=True)
    meta = Meta(benchmark=LLAMA3_1_8B.id, scenario="Offline", status="complete", samples=48)
    figures = PerformanceFigures(valid=True, samples_per_sec=5.0)
    summary = Summary(meta=meta, run=Run(performance=figures))
    write_json(folder / SUMMARY_JSON, summary.as_json())
    write_json(folder / CONFIG_JSON, config_of(settings_of(results, **options)))


def takes_a_kept_rate(settings: Settings) -> bool:
    return not planned(settings, [SERVER]).implicit_runs


def check_no_other_takes_its_rate(
    results: Path, own: dict[str, Any], *others: dict[str, Any]
) -> None:
    """Neither before an engine is loaded nor with what is known afterwards."""
    keep_offline_run(results, **own)
    assert takes_a_kept_rate(settings_of(results, **own))
    for options in ({}, *others):
        settings = settings_of(results, **options)
        assert not takes_a_kept_rate(settings)
        assert kept_rate(results, LLAMA3_1_8B.id, Config.read(config_of(settings))) is None
