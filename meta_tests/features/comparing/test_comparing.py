"""python -m mlperf_suite compare: its tables, an engine beside servers, answers, the gate."""

import csv
import json
import math
import os
import re
import signal
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from meta_tests.made_runs import remote_run
from meta_tests.reports.kept_run import change_summary, results_of, write_kept
from meta_tests.reports.outputs import markdown_rows, page_rows, reports_of
from meta_tests.reports.undrawn import PNG
from mlperf_suite.__main__ import main
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.features.comparing.comparison import (
    PLOT_FORMATS,
    comparison_of,
    comparison_sections,
)
from mlperf_suite.features.comparing.hidden_losses import hidden_losses
from mlperf_suite.reports.closing import closing_lines
from mlperf_suite.reports.writing import write_samples
from mlperf_suite.results.baseline import load_baseline, write_answer_scores
from mlperf_suite.results.regression import compare_summaries
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import ChangeFigures, Meta, RegressionFigures, Summary
from mlperf_suite.results.typed_json import to_json
from mlperf_suite.rules import rule_named

ANSWERS = {0: "One.", 2: "Two.", 5: "Three.", 7: "Four."}
SMOKE = Meta(profile="smoke")
SCORES = {0: 40.0, 2: 30.0, 5: 20.0, 7: 10.0}


def make_run(
    folder: Path,
    tokens_per_sec: float = 1000.0,
    ttft: float = 50.0,
    *,
    remote: RemoteRun | None = None,
    scenario: str = "Server",
    answers: dict[int, str] = ANSWERS,
    scores: dict[int, float] = SCORES,
    data: str = "d1",
    samples: int = 84,
    verdicts: tuple[dict[str, str], ...] = (),
) -> Path:
    """A run's folder: figures, settings, answers, scores."""
    (accuracy := folder / "Accuracy").mkdir(parents=True)
    meta = {"benchmark": "llama3.1-8b", "scenario": scenario, "status": "complete"}
    meta |= {"dataset": "embedded", "model": "m", "label": "smoke"}
    performance = {
        "target_qps": 10.0,
        "tokens_per_sec": tokens_per_sec,
        "ttft_ms": {"p50": ttft, "p99": 2 * ttft},
        "tpot_ms": {"p50": ttft / 10, "p99": ttft / 5},
        "blocks": {"tokens_per_sec": [tokens_per_sec] * 20, "ttft_p50_ms": [ttft] * 20},
    }
    mean = sum(scores.values()) / max(len(scores), 1)
    rouge = {"scores": [{"name": "rouge1", "value": mean, "unit": "%"}]}
    remote_runs = {"performance": to_json(remote)} if remote else {}
    run = {"performance": performance, "accuracy": rouge, "remote": remote_runs}
    summary = {"meta": meta | {"samples": samples}, "system": {"cpu": "a cpu"}, "run": run}
    write_json(folder / "summary.json", summary | {"verdicts": list(verdicts)})
    engine = {"name": "vLLM server" if remote else "vLLM", "version": "0.32.0"}
    config = {"engine": engine, "dataset": {"sha256": data}, "prompts_sha256": f"p{data}"}
    write_json(folder / "config.json", config)
    items = [Sample(f"input {i}", f"reference {i}") for i in range(10)]
    write_samples(accuracy, list(answers), list(answers.values()), items)
    write_answer_scores(accuracy, "rouge", {"rouge1": list(scores.values())}, data)
    return folder


def one_line(text: str) -> str:
    """What is folded to a terminal's width."""
    return " ".join(text.split())


def rows_of(text: str) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in markdown_rows(text)}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs that are alike."""
    return make_run(tmp_path / "a"), make_run(tmp_path / "b")


def changed(folder: Path, changes: dict[str, Any], file: str = "summary.json") -> Path:
    """Write other values into a JSON file of a run."""

    def merged(content: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
        return content | {
            name: merged(content.get(name, {}), value) if isinstance(value, dict) else value
            for name, value in parts.items()
        }

    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(merged(content, changes)))
    return folder


def performance(**figures: Any) -> dict[str, Any]:
    return {"run": {"performance": figures}}


def gate_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("gate: ")]


# The tables


def test_each_run_has_a_table_beside_the_first(tmp_path: Path, compare: Any) -> None:
    """One of another model too; one of another kind has figures and no change."""
    first, *others = results_of(tmp_path, 5)
    change_summary(others[1], meta={"benchmark": "llama3.1-8b-edge"})
    change_summary(others[2], meta={"scenario": "Offline"})
    change_summary(others[3], meta={"model": "another", "run_name": "new | kernel"})
    status, text, _ = compare(first, *others)
    rows = markdown_rows(text)
    assert status == 0
    assert f"{others[1].name} was not compared with {first.name}: another benchmark" in one_line(
        text
    )
    names = [*(run.name for run in (first, *others[:3])), f"new | kernel ({others[3].name})"]
    assert [row[:2] for row in rows[1:6]] == [[str(n), name] for n, name in enumerate(names, 1)]
    of_tokens = [row[1:] for row in rows if row[0] == "tokens/s"]
    assert [row[:2] for row in of_tokens] == [["100.00", f"10{n}.00"] for n in range(1, 5)]
    assert of_tokens[0][2].startswith("+1.0%") and of_tokens[3][2].startswith("+4.0%")
    assert [row[2:] for row in of_tokens[1:3]] == [["", "not compared"]] * 2
    assert {row[0]: row[2] for row in rows}.items() >= {
        ("benchmark", "llama3.1-8b-edge"),
        ("scenario", "Offline"),
        ("model", "another"),
    }


def test_what_differs_stands_first_on_a_screen_of_100_columns(
    pair: tuple[Path, Path], tmp_path: Path, compare: Any
) -> None:
    """Also where threads ran, which the gate does not ask for, and a long setting where it
    differs."""
    cores = (
        {"omp_threads_bind": "0", "server_settings": {"dtype": "bf16"}},
        {"omp_threads_bind": "0,1", "server_settings": {"dtype": "fp8", "kernel": "new"}},
    )
    prompts = f"{'A long beginning ' * 9}one{' with its end' * 9}", f"{'A long beginning ' * 9}two"
    for run, bind, prompt in zip(pair, cores, prompts, strict=True):
        precision = "auto" if run is pair[0] else "fp8"
        settings = {"precision": precision, "prompt": prompt, "max_regression": len(prompt)}
        changed(run, {"engine": {"settings": bind}, "settings": settings}, "config.json")
    changed(pair[1], performance(repeats=[{}]) | {"meta": {"label": "a" * 300}})
    files = tmp_path / "c.csv", tmp_path / "c.json"
    _, text, _ = compare(*pair, "--csv", files[0], "--json", files[1])
    rows = rows_of(text)
    assert rows["engine: omp_threads_bind"] == ["0", "0,1"]
    assert rows["server: dtype"] == ["bf16", "fp8"]
    assert rows["server: kernel"] == ["not known", "new"] and rows["--precision"] == ["auto", "fp8"]
    assert rows["--repeat"] == ["1", "2"] and "--max-regression" not in rows
    assert [cell[:12] for cell in rows["prompt"]] == ["…ginning one", "…ginning two"]
    assert text.index("omp_threads") < text.index("Result:") < text.index("tokens/s")
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 100
    lines = list(csv.DictReader(files[0].read_text().splitlines()))
    content = json.loads(files[1].read_text())
    (beside,) = content["comparisons"]
    assert [run["name"] for run in content["runs"]] == ["a", "b"]
    assert {"name": "--repeat", "first": "1", "second": "2"} in beside["settings"]
    assert [line["metric"] for line in lines] == [change["metric"] for change in beside["metrics"]]
    assert float(lines[0]["baseline"]) == beside["metrics"][0]["baseline"]
    (pair[0] / "config.json").unlink()
    assert "Not known: a run has no config.json." in compare(pair[0], pair[0])[1]


def test_a_run_without_figures_is_a_row_with_its_reason_and_failed_rules(
    tmp_path: Path, compare: Any
) -> None:
    good, dead = results_of(tmp_path, 2)
    words = {"found": "INVALID", "required": "VALID", "why": "too | short"}
    change_summary(
        dead,
        meta={"status": "failed", "reason": "the engine | did not load"},
        run={"performance": None, "accuracy": None},
        verdicts=[
            {"rule": "result_valid", "status": "failed"} | words,
            {"rule": "seeds", "status": "passed", "found": "a", "required": "a"},
        ],
    )
    _, text, _ = compare(good, dead)
    rows = rows_of(text)
    assert (rows["1"][::2], rows["2"][::2]) == ([good.name, "complete"], [dead.name, "failed"])
    assert f"- {dead.name}: the engine | did not load" in text.replace("\\", "")
    assert rows["tokens/s"] == ["100.00", "not reported", "", "not compared"]
    _, rules = text[text.index("Failed rules:") :].replace("\\", "").strip().split("\n\n")[:2]
    rule = rule_named("result_valid")
    assert rule is not None
    failure = f"- {dead.name}: result_valid: found INVALID, required VALID (too | short)"
    assert one_line(rules) == f"{failure} ({rule.sentence})"
    status, text, _ = compare(dead, good)
    assert status == 2 and "the run has no figures to compare (failed)" in text


@pytest.mark.parametrize(("noise", "is_drawn"), [(0.05, True), (0.3, False)])
def test_the_line_on_a_bar_is_the_interval_of_its_change(
    tmp_path: Path, noise: float, is_drawn: bool
) -> None:
    """In the metric's unit, also where lower is better; none where it would hide the bars."""
    runs = make_run(tmp_path / "a"), make_run(tmp_path / "b", 1000.0, 100.0)
    for run, ttft in zip(runs, (50.0, 100.0), strict=True):
        blocks = {"ttft_p50_ms": [ttft * (1 + noise * math.sin(ttft * n)) for n in range(20)]}
        changed(run, performance(blocks=blocks))
    comparison = comparison_of([load_baseline(run) for run in runs], 0.05)
    (section,) = (of for of in comparison_sections(comparison) if of.title == "Figures")
    (plot,) = (p for b in section.blocks for p in b.plots if p.name == "compare_ttft_p50")  # type: ignore[union-attr]
    axes = Figure().subplots()
    plot.draw(axes, "black")
    bars: Any = axes.containers[-1]
    ends = [segment[:, 0] for segment in bars.errorbar.lines[2][0].get_segments() if len(segment)]
    change = comparison.candidates[0].regression.of("ttft_p50")
    assert change is not None and change.low is not None and change.high is not None
    drawn = [50 / (1 + change.high), 50 / (1 + change.low)]
    assert [list(of) for of in ends] == ([pytest.approx(drawn)] if is_drawn else [])


def test_what_cannot_be_read_or_made_is_one_line(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plot before the table."""
    runs, page, plot = [*map(str, pair)], f"{tmp_path}/nowhere/page.html", f"{tmp_path}/plot.png"
    for words, message in {
        **{(*runs, "--plot", n): f"--plot {n}: must be one of" for n in ("x.foo", "x", ".png")},
        (*runs, "--plot", plot, "--html", page): f"--html {page}: its folder does not exist",
        (*runs, "--max-regression", "100"): "--max-regression 100: must be a number from 0 to",
        (plot, page): f"{plot}: plot.png: No such file or directory\n",
        (runs[0],): f"compare: needs at least two runs; {runs[0]} is one",
    }.items():
        assert main(["compare", *words]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.startswith(f"error: {message}")


@pytest.mark.parametrize("ending", [".PNG", *PLOT_FORMATS])
def test_a_comparison_is_drawn_in_every_format(tmp_path: Path, ending: str) -> None:
    runs, plot = results_of(tmp_path, 2), tmp_path / f"plot{ending}"
    assert main(["compare", *map(str, runs), "--plot", str(plot)]) == 0
    beginning = {".svg": b"<?xml", ".pdf": b"%PDF"}.get(ending, PNG)
    assert plot.read_bytes().startswith(beginning)


@pytest.mark.parametrize("option", ["--plot", "--html"])
def test_a_comparison_is_written_to_a_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    run = str(write_kept(tmp_path / "run"))
    mine = tmp_path / "mine.png"
    mine.write_bytes(b"mine")
    out = [tmp_path / name for name in ("link.png", "folder.png", "fifo.png")]
    out[0].symlink_to(mine)
    out[1].mkdir()
    os.mkfifo(out[2])
    for path in out:
        assert main(["compare", run, run, option, str(path)]) == 2
        message = f"error: {option} {path}: a link, a folder or a device; name a file\n"
        assert capsys.readouterr() == ("", message)
    assert mine.read_bytes() == b"mine"


# The network's cost


@pytest.mark.parametrize("swapped", [False, True])
def test_what_the_server_costs_is_told_beside_the_run_in_the_process(
    tmp_path: Path, compare: Any, swapped: bool
) -> None:
    local = make_run(tmp_path / "local")
    remote = make_run(tmp_path / "remote", 950.0, 53.2, remote=remote_run())
    _, text, page = compare(*((remote, local) if swapped else (local, remote)))
    rows = rows_of(text[text.index("cost:") :])
    assert rows["metric"] == ["local", "remote", "difference"]
    assert rows["tokens/s"] == ["1,000.00", "950.00", "x 0.950"]
    assert rows["TTFT p50"] == ["50.00 ms", "53.20 ms", "+3.20 ms"]
    assert rows["TTFT p99"] == ["100.0 ms", "106.4 ms", "+6.40 ms"]
    assert rows["TPOT p99"] == ["10.00 ms", "10.64 ms", "+0.64 ms"]
    assert rows["rouge1, %"] == ["25.00", "25.00", "+0.00"]
    words = "client added 0.20 ms before sending and 0.30 ms after receiving (p99)."
    assert words in one_line(text)
    assert "4 of 4 answers are identical." in text
    assert rows_of(text)["place"][swapped] == "in the suite's process"
    assert (
        "hardware: not known for the servers of remote (http://one:8000, http://two:8000)" in text
    )
    cells = page_rows(page)
    for name, values in rows.items():
        if name in ("tokens/s", "rouge1, %"):
            assert [name, *values] in cells
    assert page.count("<svg") == 6


def test_runs_of_other_samples_say_so_first(tmp_path: Path, compare: Any) -> None:
    first = make_run(tmp_path / "one")
    second = make_run(tmp_path / "other", data="d2", samples=20)
    _, text, page = compare(first, second)
    assert text.startswith(
        "These runs have different samples, so their figures do not compare the systems:\n"
    )
    beginning = text[: text.index("| run ")]
    for words in ("data sha256: one d1, other d2", "samples: one 84, other 20", "prompts sha256"):
        assert words in beginning
    assert "The two runs kept no answers to the same samples." in page


def test_the_answers_that_differ_most_stand_beside_each_other(tmp_path: Path, compare: Any) -> None:
    first = make_run(tmp_path / "one")
    answers = ANSWERS | {2: "Another.", 7: "A longer one."}
    del answers[0]
    scores = {2: 29.0, 5: 20.0, 7: 90.0}
    _, text, page = compare(first, make_run(tmp_path / "other", answers=answers, scores=scores))
    assert "1 of 3 answers are identical." in text and "A longer one." not in text
    most, next_ = page.index("Sample 7: rouge1 10.00 and 90.00"), page.index("Sample 2: rouge1")
    assert most < page.index("Four.") < page.index("A longer one.") < next_
    assert "Sample 5" not in page


def test_a_client_bound_run_has_figures_and_is_compared_with_nothing(
    tmp_path: Path, compare: Any
) -> None:
    failure = {"rule": "client_bound", "status": "failed", "found": "x", "required": "y", "why": ""}
    first = make_run(tmp_path / "one")
    second = make_run(tmp_path / "other", 2000.0, remote=remote_run(0.95), verdicts=(failure,))
    for run, rate in ((first, 0.6), (second, 0.4)):
        goodput = {"requests": 64, "within": 49, "samples_per_sec": rate}
        changed(run, performance(target_qps=rate, goodput=goodput))
    _, text, _ = compare(first, second)
    rows = rows_of(text)
    assert rows["goodput, samples/s"] == ["0.60", "0.40", "", "not compared"]
    assert rows["2"][-1] == "complete, client-bound: not a result"
    assert rows["tokens/s"] == ["1,000.00", "2,000.00", "", "not compared"]
    assert "was not compared with one: this run: client-bound: not a result." in one_line(text)
    assert "cost" not in text


# The gate


@pytest.mark.parametrize(("share", "status"), [(1.0, 0), (0.5, 1)])
def test_the_gate_is_an_exit_status(
    tmp_path: Path, compare: Any, share: float, status: int
) -> None:
    """Without --gate the same comparison is a table alone."""
    scores = {key: score * share for key, score in SCORES.items()}
    runs = make_run(tmp_path / "a"), make_run(tmp_path / "b", scores=scores)
    code, text, _ = compare(*runs)
    assert (code, gate_of(text)) == (0, [])
    code, text, _ = compare(*runs, "--gate")
    assert code == status
    assert [line.split(":")[1:3] for line in gate_of(text)] == [[" b", " regressed"]] * status


def test_the_gate_keeps_its_exit_status_when_nobody_reads_it(tmp_path: Path) -> None:
    runs = make_run(tmp_path / "a"), make_run(tmp_path / "b", scores=dict.fromkeys(SCORES, 1.0))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as output, redirect_stdout(output):
        assert main(["compare", *map(str, runs), "--gate"]) == 1


def test_a_run_that_regressed_says_how_to_compare_it() -> None:
    change = ChangeFigures("b", "tokens/s", outcome="regressed", words="-35.2%")
    for metrics, said in (((change,), True), ((replace(change, outcome="unchanged"),), False)):
        regression = RegressionFigures("last good", metrics=metrics)
        lines = closing_lines(Summary(meta=SMOKE, regression=regression), Path("run"))
        command = "python -m mlperf_suite compare 'last good' run: what differs"
        assert any(line.label == "next" and line.text.startswith(command) for line in lines) == said


def test_a_baseline_says_which_losses_the_gate_could_not_see_with_it() -> None:
    def at(share: float) -> Summary:
        rate, *rest = ({"tokens_per_sec": r * share} for r in (100.0, 110.0, 92.0, 104.0, 96.0))
        return Summary.read({"run": {"performance": {**rate, "repeats": rest}}})

    words = hidden_losses(at(1))
    found = re.match(r"losses below ([\d.]+)% of tokens/s cannot be seen", words)
    assert found and hidden_losses(at(1), 0.5) == ""
    for share, outcome in ((0.98, "cannot tell"), (1.02, "regressed")):
        (change,) = compare_summaries(at(1), at(1 - share * float(found[1]) / 100))
        assert change.outcome == outcome
    said = " ".join(line.text for line in closing_lines(at(1), Path("run")))
    assert words[1:] in said and words[1:] in reports_of(at(1))[0]


def test_six_runs_share_the_false_alarms_wherever_each_stands(tmp_path: Path, compare: Any) -> None:
    """At the confidence of four comparisons "b" is regressed, at that of five it is not: in the
    table, in the file and in the gate alike."""
    first, *rest = (make_run(tmp_path / name, scenario="Offline") for name in "abcdef")
    blocks = {"tokens_per_sec": [900 * (1 + 0.0265 * (-1) ** n) for n in range(20)]}
    changed(rest[0], performance(tokens_per_sec=900.0, blocks=blocks))
    file, found = tmp_path / "c.json", []
    for others in (rest[:4], rest, rest[::-1]):
        status, text, _ = compare(first, *others, "--gate", "--json", file)
        (of_b,) = (of for of in json.loads(file.read_text())["comparisons"] if of["run"] == "b")
        rate = of_b["metrics"][0]
        assert rate["words"] in text and rate["outcome"] in text
        found.append((rate["outcome"], status, rate["low"]))
    assert [of[:2] for of in found] == [("regressed", 1), *[("cannot tell", 0)] * 2]
    assert found[1] == found[2]


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "failed": ({"meta": {"status": "failed"}}, "its status is failed, not complete"),
    "nan": (performance(tokens_per_sec=math.nan), "tokens/s is missing"),
    "zero": (performance(tokens_per_sec=0.0), "tokens/s is 0 tokens/s"),
    "rate": (performance(target_qps=9.6), "not comparable: the baseline was sent"),
    "no_rate": (performance(target_qps=None), "its rate of queries is not known"),
    "other_figures": ({"run": {"performance": None, "accuracy": None}}, "no accuracy run"),
    "samples": ({"meta": {"samples": 9}}, "not comparable: "),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_reference", [False, True])
def test_the_gate_is_not_passed_where_no_loss_could_show(
    pair: tuple[Path, Path], compare: Any, fault: str, is_reference: bool
) -> None:
    changes, words = FAULTS[fault]
    changed(pair[1], changes)
    status, text, _ = compare(*pair[:: -1 if is_reference else 1], "--gate")
    if fault == "other_figures" and is_reference:
        assert status == 2 and "the run has no figures to compare" in text
    else:
        assert status == 1 and any(words in line for line in gate_of(text))
        assert not any("--baseline " in line for line in gate_of(text))
    if fault == "samples":
        assert compare(*pair, "--gate", "--baseline-allow-different")[0] == 0


def test_the_gate_is_not_passed_by_what_the_baseline_lacks(
    pair: tuple[Path, Path], tmp_path: Path, compare: Any
) -> None:
    """NaN hides any loss; a mode that only one of the two has hides that mode's."""
    changed(pair[0], performance(ttft_ms={"p50": math.nan, "p99": math.nan}))
    zero = {"scores": [{"name": "rouge1", "value": 0.0, "unit": "%"}]}
    changed(pair[0], {"run": {"accuracy": zero}})
    third = changed(make_run(tmp_path / "c"), {"run": {"accuracy": None}})
    status, text, _ = compare(*pair, third, "--gate")
    assert status == 1
    for metric in ("TTFT p50", "TTFT p99"):
        assert f"gate: b: {metric}: the baseline has no such figure" in text
    # One that scored 0 is not said to lack the score.
    assert "gate: b: rouge1: the baseline's is 0" in text
    assert "gate: c: no accuracy run, unlike the baseline" in text
    status, text, _ = compare(third, pair[1], "--gate")
    assert (status, gate_of(text)) == (1, ["gate: b: the baseline has no accuracy run"])


def test_the_gate_is_not_passed_by_lost_repeats_or_an_unknown_engine(
    pair: tuple[Path, Path], compare: Any
) -> None:
    changed(pair[1], {"settings": {"repeat": 3}}, "config.json")
    changed(pair[1], performance(repeats=[{"tokens_per_sec": 1000.0}]))
    status, text, _ = compare(*pair, "--gate")
    assert status == 1
    assert "gate: b: it has 2 of 3 repeats" in text
    assert "gate: b: TTFT p99 is missing in a repeat" in text
    (pair[1] / "config.json").unlink()
    assert "gate: b: its engine is not known" in compare(*pair, "--gate")[1]


NOISY = {"tokens_per_sec": [1000.0, 40.0] * 10, "ttft_p50_ms": [50.0, 2.0] * 10}
BLIND: dict[str, tuple[str, dict[str, Any], str]] = {
    "no_noise": ("Offline", {"blocks": {}}, "tokens/s: the noise (not measured)"),
    "noise": ("Server", {"blocks": NOISY}, "TTFT p50, TTFT p99, TPOT p50, TPOT p99: the"),
    "repeat_of_nearly_0": (
        "Offline",
        {"repeats": [{"tokens_per_sec": rate} for rate in (1000.0, 1000.0, 1000.0, 0.01)]},
        "tokens/s: the noise (",
    ),
}


@pytest.mark.parametrize("case", BLIND)
@pytest.mark.parametrize("is_reference", [False, True])
def test_the_gate_is_not_passed_where_the_noise_hides_half_of_the_speed(
    tmp_path: Path, compare: Any, case: str, is_reference: bool
) -> None:
    scenario, figures, words = BLIND[case]
    runs = [make_run(tmp_path / name, scenario=scenario) for name in "ab"]
    # Blocks of one side would do.
    for run in runs if case == "no_noise" else [runs[0 if is_reference else 1]]:
        content = json.loads((run / "summary.json").read_text())
        content["run"]["performance"] |= figures
        (run / "summary.json").write_text(json.dumps(content))
    status, text, _ = compare(*runs, "--gate")
    assert status == 1 and f"gate: b: {words}" in text
    if case != "no_noise":
        assert re.search(r"% \(too noisy to say\) +\| cannot tell \|", text)
        assert "Cannot tell whether b lost against a: " in text and "(next: " in text
        assert not re.search(r"\d{3}%", text)


def test_the_gate_is_not_passed_by_another_length(pair: tuple[Path, Path], compare: Any) -> None:
    """A system that is half as fast is still compared: it takes longer or generates less."""
    for run, tokens, seconds, status in (
        (pair[0], 60_000, 60.0, 0),
        (pair[1], 29_000, 60.0, 0),
        (pair[1], 6_000, 6.0, 1),
        (pair[1], 600, 0.6, 1),
        (pair[1], 600_000, 600.0, 1),
    ):
        changed(run, performance(total_new_tokens=tokens, duration_s=seconds))
        code, text, _ = compare(*pair, "--gate")
        assert code == status
    words = "length of the run: baseline 60,000 tokens in 60 s, this run 600,000 tokens in 600 s"
    assert words in text


def test_sigterm_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "mlperf_suite.features.comparing.command._compare"
    monkeypatch.setattr(command, lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit, match="143"):
        main(["compare", "a", "b"])
    assert not any(tmp_path.iterdir())
