"""The options of profiled runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.engines.protocol import PROFILERS
from mlperf_suite.errors import UsageError
from mlperf_suite.option_specs import RATE, OptionSpec, choice

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_option = partial(OptionSpec, identifies=None, engine="vllm", section="Profiling")

OPTIONS = {
    "profile_run": _option(
        "make the performance runs under vLLM's profiler and keep the trace: torch for torch's "
        "profiler, cuda for Nsight Systems; a profiled run is not a result",
        choice(*PROFILERS),
        not_with=("client",),
    ),
    "profile_seconds": _option("length of a run with --profile-run, in seconds", RATE, "5"),
}


def check(settings: Settings) -> None:
    """Raise UsageError for options that cannot be combined with --profile-run."""
    profiler = settings.feature_options["profile_run"]
    if profiler is None:
        return
    conflicts = {
        "--mode accuracy": settings.mode == "accuracy",
        **settings.implied_flags("profile-run"),
        "--baseline": bool(settings.baselines),
        "--repeat": settings.repeat != 1,
        "--logs": settings.logs is not None,
        "--engine-arg profiler_config": "profiler_config" in settings.engine_args,
    }
    if in_use := [name for name, set_by_user in conflicts.items() if set_by_user]:
        raise UsageError(
            f"{in_use[0]}: cannot be used with --profile-run {profiler}, which makes "
            "performance runs that are not results"
        )
