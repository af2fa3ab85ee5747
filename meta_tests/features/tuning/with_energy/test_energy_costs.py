"""What a run costs in energy, where it was metered."""

from pathlib import Path

from mlperf_suite.features.energy.energy_figures import EnergyFigures, KindFigures
from mlperf_suite.features.tuning.target import TrialFiles, costs_of
from mlperf_suite.results.schema import Summary


def test_a_run_costs_the_energy_of_its_tokens(tmp_path: Path) -> None:
    energy = EnergyFigures(kinds=(KindFigures("GPU", joules=5.0, joules_per_token=0.25),))
    trial = TrialFiles(tmp_path, Summary(parts={"run.energy": energy}))
    assert costs_of([trial]) == {"GPU energy, J/token": 0.25}
