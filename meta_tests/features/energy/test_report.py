"""Energy in every output: labelled as no MLPerf Power, the reason where it was not measured."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.reports.outputs import reports_of, terminal_text
from mlperf_suite.energy.meters import NVML_LABEL, RAPL_LABEL, SIMULATED_LABEL
from mlperf_suite.features.energy.energy_figures import (
    COST,
    ENERGY,
    CostFigures,
    EnergyFigures,
    KindFigures,
)
from mlperf_suite.reports.writing import write_index, write_reports
from mlperf_suite.results.run_folder import read_summary, write_json
from mlperf_suite.results.schema import Meta, PerformanceFigures, Run, Summary

pytestmark = pytest.mark.usefixtures("undrawn")

GPUS = KindFigures(
    *("GPU", NVML_LABEL, "", ("GPU 0 H100", "GPU 1 H100")),
    *(84_000.0, 1400.0, 1512.5, 240.0, 69_600.0, 0.0642, 15.57, 0.0532),
    ("GPU 1 H100 by its power draw",),
)
CPUS = KindFigures("CPU", RAPL_LABEL, why="energy_uj is not this user's to read")
MEASURED = EnergyFigures(60.0, 1_308_411, False, (GPUS, CPUS), 0.0004)
PRICED = CostFigures("EUR", 0.00535, ("GPU",), 12.5, 0.3, 98.0)


def summary(energy: EnergyFigures | None, cost: CostFigures | None = None) -> Summary:
    performance = PerformanceFigures(valid=True, tokens_per_sec=21_806.9)
    figures = {ENERGY: energy, COST: cost}
    parts = {name: part for name, part in figures.items() if part is not None}
    meta = Meta(benchmark="llama3.1-8b", scenario="Offline", status="complete", label="label")
    return Summary(meta=meta, run=Run(performance=performance), parts=parts)


def outputs(run_summary: Summary) -> dict[str, str]:
    """The words of each output, without line breaks and markup."""
    text, page = reports_of(run_summary)
    texts = {
        "report.html": html.unescape(re.sub(r"<[^>]+>", " ", page)),
        "report.md": text.replace("\\", ""),
        "terminal": terminal_text(run_summary),
    }
    return {name: " ".join(text.split()) for name, text in texts.items()}


def test_each_output_has_the_figures_under_their_label() -> None:
    for name, text in outputs(summary(MEASURED, PRICED)).items():
        assert NVML_LABEL in text, name
        for figure in ("0.0642", "15.57", "0.0532", "1,400", "240"):
            assert figure in text, (name, figure)
        assert f"{RAPL_LABEL}: not measured: energy_uj is not this user's to read" in text, name
        assert "energy of GPU alone, at 0.3 EUR per kWh" in text, name
        assert "0.00535 EUR" in text and "12.5 EUR" in text, name


def test_without_energy_and_prices_nothing_is_said_of_either() -> None:
    for text in outputs(summary(None)).values():
        assert not re.search("energy|joule|J/token|not measured", text, re.IGNORECASE)
    cost = CostFigures("EUR", None, (), None, 0.3, 98.0)
    for text in outputs(summary(EnergyFigures(kinds=(CPUS,)), cost)).values():
        assert "energy, at 0.3 EUR per kWh" in text and "not measured" in text


def test_a_simulation_says_so_wherever_a_figure_stands() -> None:
    kinds = (replace(GPUS, label=SIMULATED_LABEL),)
    run_summary = summary(replace(MEASURED, simulated=True, kinds=kinds), PRICED)
    for name, text in outputs(run_summary).items():
        assert "NVML" not in text, name
        assert text.count("SIMULATED") >= 2, name


def test_the_closing_summary_fits_80_columns() -> None:
    text = terminal_text(summary(MEASURED, PRICED))
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.strip() for line in text.splitlines()]
    assert "0.0642 J/token (0.0532 above idle), 15.57 tokens/J" in lines
    assert "mean 1,400 W, peak 1,512 W, idle 240 W" in lines


def test_the_index_and_the_report_made_again_keep_the_energy(tmp_path: Path) -> None:
    run = tmp_path / "20261120-065625-llama3.1-8b-offline"
    run.mkdir()
    write_json(run / "summary.json", summary(MEASURED, PRICED).as_json())
    write_reports(run)
    again = read_summary(run)
    assert again is not None and again.parts == {ENERGY: MEASURED, COST: PRICED}
    write_index(tmp_path)
    for name in ("index.md", "index.html"):
        text = (tmp_path / name).read_text()
        assert "J/token: GPU energy by NVML or CPU energy by RAPL, not MLPerf Power." in text
        assert "GPU 0.0642" in text
    write_json(run / "summary.json", summary(None).as_json())
    write_index(tmp_path)
    assert "J/token" not in (tmp_path / "index.md").read_text()
