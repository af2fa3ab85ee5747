"""The hook with which a plugin says what meters an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlperf_suite.plugin.lifecycle import SUITE

if TYPE_CHECKING:
    from mlperf_suite.energy import Meters
    from mlperf_suite.engines.protocol import Engine, EngineDescription
    from mlperf_suite.settings import Settings


class EnergyHooks:
    """The hooks of this plugin."""

    @pytest.hookspec(firstresult=True)
    def pytest_mlperf_energy_meters(
        self, settings: Settings, description: EngineDescription, engine: Engine
    ) -> Meters | None:
        """Return the energy meters for a run on this engine; the first plugin that returns some
        wins. `description`: the engine's own.

        Made-up counters must be marked as `simulated`; every figure from them is then marked too.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(EnergyHooks)


@pytest.hookimpl(trylast=True)
def pytest_mlperf_energy_meters(settings: Settings, engine: Engine) -> Meters:
    from mlperf_suite.features.energy.session import find_meters

    return find_meters(settings, engine)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The session that was just planned asks the hook."""
    from mlperf_suite.features.energy.session import Energy

    suite, hook = session.config.stash.get(SUITE, None), session.config.hook
    if suite is not None:
        suite.companion(Energy).find = lambda settings, engine: hook.pytest_mlperf_energy_meters(
            settings=settings, description=engine.description, engine=engine
        )
