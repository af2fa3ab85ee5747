"""The power of a run stands under its throughput."""

from pathlib import Path

from mlperf_suite.energy import NVML_LABEL
from mlperf_suite.features.energy.energy_figures import ENERGY, Curve, EnergyFigures, write_curve
from mlperf_suite.features.energy.report import REPORT
from mlperf_suite.results.schema import Summary


def test_the_power_stands_under_the_throughput(tmp_path: Path) -> None:
    folder = tmp_path / "Performance"
    folder.mkdir()
    edges = tuple(float(i * 500) for i in range(41))
    write_curve(folder, Curve(edges, {NVML_LABEL: tuple(600.0 + i for i in range(40))}, False))
    below = REPORT.over_time(tmp_path, Summary(parts={ENERGY: EnergyFigures()}))
    (plot,) = below
    figure = plot.svg()
    assert "power, W" in figure and NVML_LABEL in figure
    assert plot.caption == f"the power: {NVML_LABEL}."
    assert REPORT.over_time(tmp_path, Summary()) == []
