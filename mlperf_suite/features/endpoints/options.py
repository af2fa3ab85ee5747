"""The options of the official client and of the series, and what they cannot be combined with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.errors import UsageError
from mlperf_suite.features.endpoints.official_client.installation import OFFICIAL_CLIENT
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OFFICIAL_CLIENT_MODELS,
    OFFICIAL_CLIENT_ROUND,
)
from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS
from mlperf_suite.option_specs import OptionSpec, choice

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_of_endpoint = partial(OptionSpec, identifies=None, engine="endpoint", section="Servers")

OPTIONS = {
    "series": _of_endpoint(
        "measure only the curve of MLPerf Endpoints, with --client inference-endpoint",
        choice("endpoints"),
        own_runs={"endpoints": ""},
    ),
    "client": _of_endpoint(
        "the client that sends the requests: loadgen, the suite's client under LoadGen, or "
        "inference-endpoint, MLCommons' official HTTP client (make endpoints-client)",
        choice("loadgen", OFFICIAL_CLIENT),
        "loadgen",
        own_runs={OFFICIAL_CLIENT: "makes its own runs"},
    ),
}


def by_official_client(settings: Settings) -> bool:
    """Whether MLCommons' HTTP client sends the requests, in place of LoadGen."""
    return bool(settings.feature_options["client"] == OFFICIAL_CLIENT)


def series_of(settings: Settings) -> str | None:
    """The series whose curve alone is measured."""
    series: str | None = settings.feature_options["series"]
    return series


def check(settings: Settings) -> None:
    """Raise UsageError for options that cannot be combined with the official HTTP client."""
    series, options = series_of(settings), settings.feature_options
    if not by_official_client(settings):
        if series:
            raise UsageError(
                f"--series {series}: can only be used with --client {OFFICIAL_CLIENT}; "
                "-m curve measures a curve with the suite's own client, which is not a result"
            )
        return
    conflicts = {
        "--logs": settings.logs is not None,
        **settings.implied_flags("client"),
        "--repeat": settings.repeat != 1,
        "--endpoint-header": bool(options["endpoint_headers"]),
        "--endpoint-ca": options["endpoint_ca"] is not None,
        "--scenario SingleStream": settings.scenario == "SingleStream",
        f"--endpoint-server {options['endpoint_server']}": options["endpoint_server"]
        in ("text", "sglang", "vllm-generate"),
    }
    if in_use := [name for name, set_by_user in conflicts.items() if set_by_user]:
        raise UsageError(
            f"{in_use[0]}: cannot be used with --client {OFFICIAL_CLIENT}, which sends token ids "
            "to /v1/completions for Offline, Server and Interactive"
        )
    if settings.round.name < OFFICIAL_CLIENT_ROUND:
        raise UsageError(
            f"--round {settings.round.name}: results of --client {OFFICIAL_CLIENT} are taken from "
            f"{OFFICIAL_CLIENT_ROUND} on"
        )
    of_series = (name for name in OFFICIAL_CLIENT_MODELS if name.replace(".", "_") in SERIES_MODELS)
    allowed = tuple(of_series) if series else OFFICIAL_CLIENT_MODELS
    unknown = [name for name in settings.named_benchmarks if name not in allowed]
    if unknown:
        place = f"--series {series}" if series else f"--client {OFFICIAL_CLIENT}"
        raise UsageError(
            f"--benchmark {unknown[0]}: cannot be measured with {place}: must be one of "
            f"{', '.join(allowed)}"
        )
