"""Where a session's engine comes from: vLLM in this process, or what a feature adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlperf_suite.feature import features
from mlperf_suite.session.run_kind import Role, Step

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What an engine is loaded for, the file for its output, and a callback that receives decisions
    while it loads."""

    role: Role
    log_file: Path
    say: Callable[[str], None] = lambda line: None


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What a step measured of an engine: figures of features, by their names in summary.json."""

    parts: dict[str, Any]


class EngineSource:
    """What loads an engine. Its module imports nothing slow: engines are imported as they load.

    `option`: the one that chooses it. `loading`: what a session does meanwhile, in words, for about
    `load_s` seconds. `is_remote`: whether it runs already, and the session only connects to it.
    `model_hint`: what else a message says of the name of a model that is none.
    `is_one_system`: whether it is the same in every process of this machine, and not one each.
    `one_by_one`: whether one request at a time measures it.
    `inputs` is an `Inputs`, `preparation` a `Preparation`: neither is imported here, since both ask
    for the source.
    """

    option: ClassVar[str] = ""
    loading: ClassVar[str] = "loading the engine"
    load_s: ClassVar[float] = 30.0
    is_remote: ClassVar[bool] = False
    model_hint: ClassVar[str] = ""
    is_one_system: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = True

    def takes(self, media: str) -> bool:
        """Whether prompts with such media reach the model as they are."""
        return True

    def engines(self, settings: Settings) -> int:
        """How many engines there will be, as far as the settings say."""
        return 1

    def urls(self, settings: Settings) -> list[str]:
        """Where it runs, if it runs already."""
        return []

    def check(self, inputs: Any) -> int | None:
        """Check it for obstacles, before data and model are read: whether what runs elsewhere
        answers. The context that it states, in tokens; None if it does not. Raises UsageError."""
        return None

    def placement(self, inputs: Any) -> list[str]:
        """Where it would be loaded, in lines. Raises SuiteError."""
        return []

    def load(self, inputs: Any, request: EngineRequest) -> Engine:
        """Load it. Raises SuiteError."""
        raise NotImplementedError

    def steps(self, settings: Settings) -> tuple[Step, ...]:
        """The measurements of the engine after its probe, besides the runs."""
        return ()

    def make(self, step: Step, preparation: Any) -> EngineFigures:
        """Make one of these steps. Raises SuiteError."""
        raise NotImplementedError


def source_of(settings: Settings) -> EngineSource:
    """The source of the engine that the settings choose: a feature's, or vLLM in this process."""
    engines = (feature.engine for feature in features() if feature.engine)
    chosen = (module for module, option in engines if settings.feature_options[option])
    source: EngineSource = import_module(next(chosen, "mlperf_suite.session.vllm_source")).ENGINE
    return source
