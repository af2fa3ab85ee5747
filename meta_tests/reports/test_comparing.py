"""python -m mlperf_suite compare: an engine in the process beside servers, and their answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from meta_tests.made_runs import remote_run
from meta_tests.reports.outputs import HOSTILE, markdown_rows, page_rows, page_tags
from mlperf_suite.__main__ import main
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.reports.writing import write_samples
from mlperf_suite.results.baseline import write_answer_scores
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.typed_json import to_json

ANSWERS = {0: "One.", 2: "Two.", 5: "Three.", 7: "Four."}
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
    accuracy = folder / "Accuracy"
    accuracy.mkdir(parents=True)
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
    write_json(
        folder / "summary.json",
        {
            "meta": meta | {"samples": samples},
            "system": {"cpu": "a cpu"},
            "run": {"performance": performance, "accuracy": rouge, "remote": remote_runs},
            "verdicts": list(verdicts),
        },
    )
    engine = {"name": "vLLM server" if remote else "vLLM", "version": "0.32.0"}
    write_json(
        folder / "config.json",
        {"engine": engine, "dataset": {"sha256": data}, "prompts_sha256": f"p{data}"},
    )
    items = [Sample(f"input {i}", f"reference {i}") for i in range(10)]
    write_samples(accuracy, list(answers), list(answers.values()), items)
    write_answer_scores(accuracy, "rouge", {"rouge1": list(scores.values())}, data)
    return folder


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Compare runs; what was printed, and the page."""

    def run(*runs: Path) -> tuple[str, str]:
        page = tmp_path / "page.html"
        options = ("--plot", str(tmp_path / "plot.png"), "--html", str(page))
        assert main(["compare", *map(str, runs), *options]) == 0
        text = capsys.readouterr().out
        assert f"page: {page}" in text
        return text, page.read_text()

    return run


def rows_of(text: str) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in markdown_rows(text)}


@pytest.mark.parametrize("swapped", [False, True])
def test_what_the_server_costs_is_told_beside_the_run_in_the_process(
    tmp_path: Path, compare: Any, swapped: bool
) -> None:
    local = make_run(tmp_path / "local")
    remote = make_run(tmp_path / "remote", 950.0, 53.2, remote=remote_run())
    text, page = compare(*((remote, local) if swapped else (local, remote)))
    assert "What the network and the server's front end cost:" in text
    rows = rows_of(text)
    assert rows[""] == ["local", "remote", "difference"]
    assert rows["tokens/s"] == ["1,000.00", "950.00", "x 0.950"]
    assert rows["TTFT p50"] == ["50.00 ms", "53.20 ms", "+3.20 ms"]
    assert rows["TTFT p99"] == ["100.0 ms", "106.4 ms", "+6.40 ms"]
    assert rows["TPOT p99"] == ["10.00 ms", "10.64 ms", "+0.64 ms"]
    assert rows["rouge1, %"] == ["25.00", "25.00", "+0.00"]
    assert rows["where"][:2] == ["in the suite's process", "http://one:8000, http://two:8000"]
    assert "client added 0.20 ms before sending and 0.30 ms after receiving (p99)." in text
    assert "4 of 4 answers are identical." in text
    assert "- engine: " in text
    assert text.count("- place: ") == 1
    assert "- hardware: not known for the servers of remote" in text
    cells = page_rows(page)
    for name, values in rows.items():
        if name in ("where", "tokens/s", "rouge1, %"):
            assert [name, *values] in cells
    assert page.count("<svg") == 6


def test_one_stack_beside_another_has_no_cost(tmp_path: Path, compare: Any) -> None:
    first, second = (make_run(tmp_path / name, remote=remote_run()) for name in ("one", "other"))
    text, _ = compare(first, second)
    assert "Side by side:" in text and "cost" not in text
    assert text.count("hardware: not known for the servers of") == 2


def test_runs_of_other_samples_say_so_first(tmp_path: Path, compare: Any) -> None:
    first = make_run(tmp_path / "one")
    second = make_run(tmp_path / "other", data="d2", samples=20)
    text, page = compare(first, second)
    assert text.startswith(
        "These runs have different samples, so their figures do not compare the systems:\n"
    )
    beginning = text[: text.index("| run |")]
    for words in ("data sha256: one d1, other d2", "samples: one 84, other 20", "prompts sha256"):
        assert words in beginning
    assert page.index("These runs have different samples") < page.index("Every run")
    assert "answers are identical" not in text
    assert "The two runs kept no answers to the same samples." in page


def test_the_answers_that_differ_most_stand_beside_each_other(tmp_path: Path, compare: Any) -> None:
    first = make_run(tmp_path / "one")
    answers = ANSWERS | {2: "Another.", 7: HOSTILE}
    del answers[0]
    scores = {2: 29.0, 5: 20.0, 7: 90.0}
    text, page = compare(first, make_run(tmp_path / "other", answers=answers, scores=scores))
    assert "1 of 3 answers are identical." in text
    assert HOSTILE not in text
    most, next_ = page.index("Sample 7: rouge1 10.00 and 90.00"), page.index("Sample 2: rouge1")
    assert most < page.index("Four.") < page.index("&lt;script&gt;") < next_
    assert "Sample 5" not in page
    assert page_tags(page) & {"script", "img", "link"} == set()
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("content", [None, "", "[]", '{"answers": 3}', '{"answers": [3, {}]}'])
def test_answers_that_cannot_be_read_break_nothing(
    tmp_path: Path, compare: Any, content: str | None
) -> None:
    """Of an older suite's runs the first three are known."""
    first, second = make_run(tmp_path / "one"), make_run(tmp_path / "other")
    (second / "Accuracy/answers.json").unlink()
    if content is not None:
        (second / "Accuracy/answers.json").write_text(content)
    text, page = compare(first, second)
    entries = content == '{"answers": [3, {}]}'
    assert ("3 of 3 answers are identical." in text) is not entries
    (second / "Accuracy/samples.json").unlink()
    text, page = compare(first, second)
    assert "The two runs kept no answers" in page


def test_a_name_that_begins_a_formula_is_drawn(tmp_path: Path, compare: Any) -> None:
    names = ["$one$", r"$\frac{$"]
    _, page = compare(*(make_run(tmp_path / name) for name in names))
    for number, name in enumerate(names, 1):
        assert page.count(f">{number}: {name}</text>") == page.count("<svg") > 0


def test_a_client_bound_run_has_figures_and_is_compared_with_nothing(
    tmp_path: Path, compare: Any
) -> None:
    failure = {"rule": "client_bound", "status": "failed", "found": "x", "required": "y", "why": ""}
    first = make_run(tmp_path / "one")
    second = make_run(tmp_path / "other", 2000.0, remote=remote_run(0.95), verdicts=(failure,))
    text, _ = compare(first, second)
    row = rows_of(text)["other"]
    assert row[0] == "complete, client-bound: not a result"
    assert row[1] == "2,000.00"
    assert "Side by side:" in text and "other is client-bound: not a result." in text
    assert "cost" not in text


def test_the_page_is_said_where_it_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(make_run(tmp_path / name)) for name in ("one", "other")]
    page = str(tmp_path / "nowhere/page.html")
    plot = str(tmp_path / "plot.png")
    assert main(["compare", *runs, "--plot", plot, "--html", page]) == 2
    assert f"error: {page}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "status"), [(1.0, 0), (0.5, 1)])
def test_the_gate_is_an_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float, status: int
) -> None:
    """Without --gate the same comparison is a table alone."""
    scores = {key: score * share for key, score in SCORES.items()}
    runs = [str(make_run(tmp_path / "a")), str(make_run(tmp_path / "b", scores=scores))]
    plot = ["--plot", str(tmp_path / "plot.png")]
    assert main(["compare", *runs, *plot]) == 0
    assert "gate: " not in capsys.readouterr().out
    assert main(["compare", *runs, *plot, "--gate"]) == status
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gate: ")]
    assert [line.split(":")[1:3] for line in lines] == [[" b", " rouge1"]] * status


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "failed": ({"meta": {"status": "failed"}}, "its status is failed, not complete"),
    "invalid": ({"meta": {"status": "invalid"}}, "its status is invalid, not complete"),
    "nan": ({"run": {"performance": {"tokens_per_sec": math.nan}}}, "tokens/s is missing"),
    "zero": ({"run": {"performance": {"tokens_per_sec": 0.0}}}, "tokens/s is 0 tokens/s"),
    "rate": (
        {"run": {"performance": {"target_qps": 9.6}}},
        "not comparable: the baseline was sent",
    ),
    "no_rate": ({"run": {"performance": {"target_qps": None}}}, "its rate of queries is not known"),
    "other_figures": ({"run": {"performance": None, "accuracy": None}}, "no accuracy run"),
}


def changed(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with other values in some places."""
    return content | {
        name: changed(content.get(name, {}), value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_reference", [False, True])
def test_the_gate_is_not_passed_where_no_loss_could_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, is_reference: bool
) -> None:
    changes, words = FAULTS[fault]
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
    summary = json.loads((runs[1] / "summary.json").read_text())
    (runs[1] / "summary.json").write_text(json.dumps(changed(summary, changes)))
    command = ["compare", *map(str, runs[:: -1 if is_reference else 1]), "--gate"]
    status = main([*command, "--plot", str(tmp_path / "plot.png")])
    output = capsys.readouterr()
    if fault == "other_figures" and is_reference:
        assert status == 2 and "the run has no figures to compare" in output.err
        return
    assert status == 1
    assert [line for line in output.out.splitlines() if line.startswith("gate: ") and words in line]


def test_the_gate_is_not_passed_by_what_the_baseline_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN hides any loss; a mode that only the baseline has hides that mode's."""
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b", ttft=200.0)
    content = json.loads((first / "summary.json").read_text())
    changes = {"run": {"performance": {"ttft_ms": {"p50": math.nan, "p99": math.nan}}}}
    (first / "summary.json").write_text(json.dumps(changed(content, changes)))
    third = make_run(tmp_path / "c")
    content = json.loads((third / "summary.json").read_text())
    (third / "summary.json").write_text(json.dumps(changed(content, {"run": {"accuracy": None}})))
    plot = ("--plot", str(tmp_path / "plot.png"))
    assert main(["compare", str(first), str(second), str(third), "--gate", *plot]) == 1
    output = capsys.readouterr().out
    for metric in ("TTFT p50", "TTFT p99"):
        assert f"gate: b: {metric}: the baseline has no such figure" in output
    assert "gate: c: no accuracy run, unlike the baseline" in output


def test_the_gate_is_not_passed_by_runs_whose_repeats_were_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
    config = json.loads((runs[1] / "config.json").read_text())
    (runs[1] / "config.json").write_text(json.dumps(config | {"settings": {"repeat": 3}}))
    content = json.loads((runs[1] / "summary.json").read_text())
    changes = {"run": {"performance": {"repeats": [{"tokens_per_sec": 1000.0}]}}}
    (runs[1] / "summary.json").write_text(json.dumps(changed(content, changes)))
    command = ["compare", *map(str, runs), "--gate", "--plot", str(tmp_path / "plot.png")]
    assert main(command) == 1
    output = capsys.readouterr().out
    assert "gate: b: it has 2 of 3 repeats" in output
    assert "gate: b: TTFT p99 is missing in a repeat" in output


NOISY = {"tokens_per_sec": [1000.0, 40.0] * 10, "ttft_p50_ms": [50.0, 2.0] * 10}
BLIND: dict[str, tuple[str, dict[str, Any], str]] = {
    "no_noise_offline": ("Offline", {"blocks": {}}, "tokens/s: the noise (not measured)"),
    "no_noise_server": ("Server", {"blocks": {}}, "TTFT p50, TTFT p99, TPOT p50, TPOT p99: the"),
    "noise_offline": ("Offline", {"blocks": NOISY}, "tokens/s: the noise (20 blocks of each run)"),
    "noise_server": ("Server", {"blocks": NOISY}, "TTFT p50, TTFT p99, TPOT p50, TPOT p99: the"),
    "repeat_of_nearly_0": (
        "Offline",
        {"repeats": [{"tokens_per_sec": rate} for rate in (1000.0, 1000.0, 1000.0, 0.01)]},
        "tokens/s: the noise (",
    ),
}


@pytest.mark.parametrize("case", BLIND)
@pytest.mark.parametrize("is_reference", [False, True])
def test_the_gate_is_not_passed_where_the_noise_hides_half_of_the_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, is_reference: bool
) -> None:
    scenario, performance, words = BLIND[case]
    runs = [make_run(tmp_path / name, scenario=scenario) for name in "ab"]
    command = ["compare", *map(str, runs), "--gate", "--plot", str(tmp_path / "plot.png")]
    # Blocks of one side would do.
    for run in runs if "no_noise" in case else [runs[0 if is_reference else 1]]:
        content = json.loads((run / "summary.json").read_text())
        content["run"]["performance"] |= performance
        (run / "summary.json").write_text(json.dumps(content))
    assert main(command) == 1
    assert f"gate: b: {words}" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["length", "engine"])
def test_the_gate_is_not_passed_by_another_length_or_an_unknown_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    """A system that is half as fast is still compared: it takes longer or generates less."""
    runs = [make_run(tmp_path / name) for name in "ab"]
    content = json.loads((runs[0] / "summary.json").read_text())
    command = ["compare", *map(str, runs), "--gate", "--plot", str(tmp_path / "plot.png")]
    if change == "engine":
        (runs[1] / "config.json").unlink()
        assert main(command) == 1
        assert "gate: b: its engine is not known" in capsys.readouterr().out
        return
    for run, tokens, seconds, status in (
        (runs[0], 60_000, 60.0, 0),
        (runs[1], 29_000, 60.0, 0),
        (runs[1], 60_000, 125.0, 0),
        (runs[1], 35_000, 35.0, 0),
        (runs[1], 6_000, 6.0, 1),
        (runs[1], 600_000, 600.0, 1),
    ):
        lengths = {"total_new_tokens": tokens, "duration_s": seconds}
        changes = changed(content, {"run": {"performance": lengths}})
        (run / "summary.json").write_text(json.dumps(changes))
        assert main(command) == status
    words = "length of the run: baseline 60,000 tokens in 60 s, this run 600,000 tokens in 600 s"
    assert words in capsys.readouterr().out


def test_the_gate_refuses_what_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(make_run(tmp_path / "a")), str(make_run(tmp_path / "b", samples=9))]
    plot = ["--plot", str(tmp_path / "plot.png")]
    assert main(["compare", *runs, *plot, "--gate"]) == 1
    assert "not comparable: " in capsys.readouterr().out
