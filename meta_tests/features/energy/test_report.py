"""Energy in every output: labelled as no MLPerf Power, the reason where it was not measured."""

import html
import json
import re
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.reports.outputs import reports_of, terminal_text
from mlperf_suite.energy import (
    NVML_LABEL,
    RAPL_LABEL,
    SIMULATED_LABEL,
    Counter,
    Meters,
    Recording,
    Series,
)
from mlperf_suite.features.energy.energy_figures import (
    COST,
    ENERGY,
    ENERGY_JSON,
    CostFigures,
    Curve,
    EnergyFigures,
    KindFigures,
    cost_figures,
    energy_figures,
    idle_watts,
    not_measured,
    read_curve,
    write_curve,
)
from mlperf_suite.features.energy.options import Price
from mlperf_suite.reports.writing import write_index, write_reports
from mlperf_suite.results.run_folder import read_summary, write_json
from mlperf_suite.results.schema import Meta, PerformanceFigures, Run, Summary

pytestmark = pytest.mark.usefixtures("undrawn")

GPUS = KindFigures(
    *("GPU", NVML_LABEL, "", ("GPU 0 H100", "GPU 1 H100")),
    *(84_000.0, 1400.0, 1512.5, 240.0, 69_600.0, 0.0642, 15.57, 0.0532),
    ("GPU 1 H100 by its power draw",),
    1400.0,
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


@pytest.mark.parametrize(
    ("mean", "limit", "is_said"),
    [(529.0, 1400.0, True), (531.0, 1400.0, False), (529.0, None, False)],
)
def test_a_gpu_that_waited_is_no_reason_for_a_faster_one(
    mean: float, limit: float | None, is_said: bool
) -> None:
    """Of 1,160 W between idle and limit, a quarter are 290."""
    kinds = (replace(GPUS, mean_watts=mean, limit_watts=limit),)
    for name, text in outputs(summary(replace(MEASURED, kinds=kinds))).items():
        waited = f"The GPU drew {mean:g} W of its limit of 1,400 W" in text
        assert waited is (is_said and name != "terminal"), name


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


# Joules a token, watts, idle power, cost; and that no simulation can pass for a measurement


SPAN = (100.0, 110.0)
GPU = [Counter(f"GPU {i}", "GPU", NVML_LABEL, lambda: 0.0) for i in range(2)]
CPU = Counter("CPU package-0", "CPU", RAPL_LABEL, lambda: 0.0, range_j=262_143.0)


def read(counter: Counter, *watts: float, begin: float = 98.0) -> Series:
    """Readings of a counter while it draws each of these for a second."""
    times, values = array("d", [begin]), array("d", [5000.0])
    for quarter in range(4 * len(watts)):
        times.append(times[-1] + 0.25)
        values.append(values[-1] + watts[quarter // 4] / 4)
    return Series(counter, times, values)


def figures(
    *series: Series, idle: dict[str, float] | None = None, simulated: bool = False
) -> tuple[EnergyFigures, Curve]:
    meters = Meters(tuple(row.counter for row in series), simulated=simulated)
    return energy_figures(meters, Recording(series, 0.02), SPAN, 4000, idle or {})


def test_a_gpu_that_disappears_leaves_the_gpus_unmeasured_and_the_cpus_measured() -> None:
    reset = read(GPU[1], *[100.0] * 6)
    reset.failure = "NVMLError: GPU is lost"
    energy, curve = figures(read(GPU[0], *[100.0] * 14), reset, read(CPU, *[50.0] * 14))
    gpus, cpus = energy.kinds
    assert gpus.why == "GPU 1: no reading after 4.0 s of 10.0 s: NVMLError: GPU is lost"
    assert (gpus.joules, gpus.joules_per_token) == (None, None)
    assert cpus.joules == pytest.approx(500)
    assert energy.measured == (cpus,)
    assert list(curve.watts) == [RAPL_LABEL]


def test_idle_power_is_what_is_drawn_once_it_has_settled() -> None:
    first, second = read(GPU[0], 500.0, 60.0, 60.0, 60.0), read(GPU[1], 400.0, 80.0, 80.0, 80.0)
    assert idle_watts(Recording((first, second))) == {NVML_LABEL: pytest.approx(140)}
    still = Series(GPU[1], first.times_s, array("d", [1.0] * len(first.times_s)))
    assert idle_watts(Recording((first, still))) == {}
    assert idle_watts(Recording((first, Series(GPU[1])))) == {}


def test_no_figure_of_a_simulation_can_pass_for_a_measurement() -> None:
    energy, curve = figures(read(GPU[0], *[50.0] * 14), read(CPU, *[50.0] * 14), simulated=True)
    assert energy.simulated and curve.simulated
    assert {kind.label for kind in energy.kinds} == {SIMULATED_LABEL}
    assert all(SIMULATED_LABEL in label for label in curve.watts)
    assert NVML_LABEL not in json.dumps([*curve.watts])


def test_a_damaged_curve_is_none(tmp_path: Path) -> None:
    for content in (
        *("", "[]", "{}", '{"ms": [0, 1], "watts": {}}', '{"ms": [0, 1], "watts": ["a"]}'),
        '{"ms": [0, 1], "watts": {"a": [1, 2]}}',
        '{"ms": [1, 0], "watts": {"a": [1]}}',
        '{"ms": [0, 1], "watts": {"a": [NaN]}}',
        '{"ms": [0, 1], "watts": {"a": [1' + "0" * 400 + "]}}",
    ):
        (tmp_path / ENERGY_JSON).write_text(content)
        assert read_curve(tmp_path) is None, content
    _, whole = figures(read(GPU[0], *[50.0] * 14))
    write_curve(tmp_path, whole)
    assert read_curve(tmp_path) == whole
    # One that does not say whether it is simulated is taken to be.
    (tmp_path / ENERGY_JSON).write_text('{"ms": [0, 1], "watts": {"a": [1]}}')
    curve = read_curve(tmp_path)
    assert curve is not None and curve.simulated


# Cost


def test_a_price_is_an_amount_and_a_currency() -> None:
    prices = {"0.30 EUR": (0.3, "EUR"), "98.32USD": (98.32, "USD"), " 250 ₩ ": (250, "₩")}
    for text, price in (prices | {".5 $": (0.5, "$")}).items():
        assert Price.parse(text) == Price(*price)
        assert Price.parse(str(Price.parse(text))) == Price(*price)
    for text in ("", "EUR", "1", "-1 EUR", "nan EUR", "inf EUR", "1,5 EUR", "1e999 EUR"):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            Price.parse(text)


def test_a_million_tokens_cost_their_energy_and_their_time() -> None:
    energy, _ = figures(read(GPU[0], *[200.0] * 14), read(CPU, *[160.0] * 14))
    # 0.5 J and 0.4 J a token are 0.25 kWh a million; at 400 tokens/s it takes 2,500 s.
    cost = cost_figures(Price.parse("0.40 EUR"), Price.parse("36 EUR"), energy, 400.0)
    assert cost == CostFigures("EUR", 0.1, ("GPU", "CPU"), 25.0, 0.4, 36.0)


def test_a_cost_needs_its_price_and_its_measurement() -> None:
    energy, _ = figures(read(GPU[0], *[200.0] * 14))
    kwh, hour = Price(0.4, "EUR"), Price(36, "EUR")
    assert cost_figures(None, None, energy, 400.0) is None
    unknown = cost_figures(kwh, hour, not_measured("no meter"), None)
    assert unknown == CostFigures("EUR", None, (), None, 0.4, 36.0)
    alone = cost_figures(None, hour, None, 400.0)
    assert alone is not None and (alone.energy, alone.machine) == (None, 25.0)
