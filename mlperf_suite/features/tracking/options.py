"""The options of tracking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mlperf_suite.errors import UsageError
from mlperf_suite.features.tracking.trackers import (
    EXPERIMENT,
    EXPERIMENT_VARIABLE,
    MLFLOW,
    URI_VARIABLE,
    Target,
)
from mlperf_suite.option_specs import OptionSpec, Values, checked

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_option = partial(OptionSpec, identifies=None, section="Tracking")
_OFF = "off"


def _target(text: str) -> str:
    """A target in its normalized spelling."""
    return text if text == _OFF else Target.parse(text, "").words


TARGET = Values(
    _target,
    "must be mlflow, mlflow:URI, MODULE:PLACE of a tracker of your own, or off; users and "
    "passwords belong in the tracker's own variables",
)
OPTIONS = {
    "track": _option(
        "send each result there once the engine has stopped; by default to MLflow if "
        f"{URI_VARIABLE} is set",
        TARGET,
    ),
    "track_experiment": _option(
        "name of the experiment",
        checked(str, str.strip, "must be a name"),
        EXPERIMENT,
        name="track-experiment",
        variable=EXPERIMENT_VARIABLE,
    ),
}
_BY_VARIABLE = "track_by_variable"
"""Whether only the variable asks for it, which may be there for other programs."""


def completed(value: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The target, None if results are not tracked. Raises UsageError without a URI."""
    has_uri, given = bool(environment.get(URI_VARIABLE)), value["track"]
    if given == MLFLOW and not has_uri:
        raise UsageError(f"--track mlflow: needs {URI_VARIABLE}, or --track mlflow:URI")
    track = MLFLOW if given is None and has_uri else given
    return {"track": None if track == _OFF else track, _BY_VARIABLE: given is None}


def check(settings: Settings) -> None:
    """Raise UsageError for a tracker that is asked for and is not installed."""
    target = target_of(settings)
    if target and target.fault and not settings.feature_options[_BY_VARIABLE]:
        raise UsageError(f"--track {target.words}: {target.fault}")


def target_of(settings: Settings) -> Target | None:
    """Where the results of a session go; None if nowhere."""
    options = settings.feature_options
    return options["track"] and Target.parse(options["track"], options["track_experiment"])
