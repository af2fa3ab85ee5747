"""What a tuning is asked: the words of its command, the space of a file or of a machine, and
settings as the options of a run, of a server and of a file."""

import json
import subprocess
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from pytest import CaptureFixture

from mlperf_suite.__main__ import main
from mlperf_suite.errors import UsageError
from mlperf_suite.features.endpoints.curve.curve_figures import PART, CurveFigures, CurvePoint
from mlperf_suite.features.peak_search.figures import PeakFigures
from mlperf_suite.features.tuning.command import add_options
from mlperf_suite.features.tuning.space import (
    Settings,
    run_arguments,
    run_variables,
    serve_command,
    space_of,
    space_text,
)
from mlperf_suite.features.tuning.target import TARGETS, TrialFiles, costs_of
from mlperf_suite.features.tuning.tuning_request import TuningRequest, request_of
from mlperf_suite.features.tuning.vllm_choices import Machine, choices_for
from mlperf_suite.results.schema import Meta, PerformanceFigures, Run, Summary


def asked(*words: str) -> TuningRequest:
    parser = ArgumentParser()
    add_options(parser)
    return request_of(parser.parse_args(["--out=x", *words]))


# The space


def test_a_file_fixes_narrows_adds_and_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "max_num_seqs = 8\nmax_num_batched_tokens = []\nblock_size = [32]\nFLAG = ['a']\n"
        "[[when]]\nonly = 'block_size > 0'\n"
    )
    expected = {"max_num_seqs": (8,), "block_size": (None, 32), "FLAG": (None, "a")}
    assert space_of(file) == expected
    assert space_of(file, own={}) == expected
    assert space_of(None, own={}) == {}


@pytest.mark.parametrize(
    "text",
    [
        *("a = {}", "a = [[1]]", '"a b" = [1]', "a = [", "a = [nan]", "a = [1, -inf]"),
        *("a = [" + "9" * 400 + "]", 'A = ["\\u0000"]', "a = [0, 1, true]"),
    ],
)
def test_a_file_that_is_no_space_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match="--space"):
        space_of(file)


def test_a_file_with_nothing_to_search(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_seqs = 8\nblock_size = []\n")
    serve = "vllm serve MODEL {flags} --port {port}"
    words = ["tune", "--out", str(tmp_path / "out"), f"--space={file}", f"--serve={serve}"]
    assert main(words) == 2
    assert "--space: nothing to choose from" in capsys.readouterr().err


def test_a_name_that_every_trial_would_fail_with_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("max_num_sqs = [64]\nOMP_BIND = ['0']\nblock_size = [32]\n")
    with pytest.raises(UsageError, match="max_num_sqs: vLLM's engine has no such argument"):
        asked(f"--space={file}")
    # A server's flags are its own.
    assert "max_num_sqs" in asked(f"--space={file}", "--serve=run {flags} --port {port}").space


ARGUMENTS = {
    **dict.fromkeys(("max_num_seqs", "block_size"), int | None),
    **dict.fromkeys(("tensor_parallel_size", "data_parallel_size"), int),
    "kv_cache_dtype": Literal["auto", "fp8", "fp8_e5m2"],
    "dtype": Literal["auto", "float16", "bfloat16", "float32"],
    "quantization": str | None,
    "async_scheduling": bool | None,
}


def test_a_machines_space_is_what_it_and_its_vllm_can() -> None:
    on_a_cpu = choices_for(Machine(0, frozenset(), has_fp8=False), ARGUMENTS)
    assert on_a_cpu.keys() == {"max_num_seqs", "block_size"}
    assert on_a_cpu["block_size"] == (32, 64, 128)
    for gpus, tensor, data in ((1, None, None), (6, (1, 2, 4), (2, 4))):
        machine = Machine(gpus, frozenset({"bfloat16", "float16"}), has_fp8=True)
        choices = choices_for(machine, ARGUMENTS)
        assert choices.get("tensor_parallel_size") == tensor
        assert choices.get("data_parallel_size") == data
        assert choices["quantization"] == ("fp8",)
        known = {"dtype": Literal["auto", "bfloat16"]}
        assert choices_for(machine, known) == {"dtype": ("bfloat16",)}


# Other words of the command


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--slot=0,0",), "name each accelerator once, in one slot only"),
        (("--slot=0,1", "--slot=1,2"), "name each accelerator once, in one slot only"),
        (("--slot=0", "--slot=1,2"), "each must have as many accelerators"),
        (("--", "--results-dir=x"), "tune: --results-dir=x: not with tune"),
        (("--minutes=100000",), "--minutes 100000: must be a number above 0 and below 100,000"),
        (("--around-minutes=-1",), "--around-minutes -1: must be a number from 0 and below 100,"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(words: Sequence[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked(*words)


def test_options_of_runs_without_dashes_are_named(capsys: CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "--out", "out", "--model", "mine"])
    assert "follow a --" in capsys.readouterr().err


# Settings in words


@pytest.mark.parametrize("options", [("--model", "/m y"), ("--seed=1", "--model=/m y")])
def test_settings_as_a_server_as_a_run_and_as_a_file(options: Sequence[str]) -> None:
    settings: Settings = {"enforce_eager": False, "a_b": True, "kv": "fp8", "OMP_X": "0", "c": None}
    command = "OMP_X=0 vllm serve '/m y' --no-enforce-eager --a-b --kv fp8"
    assert serve_command(settings, options) == command
    own = ["enforce_eager=False", "a_b=True", "kv=fp8"]
    assert run_arguments(settings) == [f"--engine-arg={argument}" for argument in own]
    assert run_variables(settings) == {"OMP_X": "0"}
    assert space_text(settings) == (
        'enforce_eager = [false]\na_b = [true]\nkv = ["fp8"]\nOMP_X = ["0"]\nc = []\n'
    )


def test_the_line_means_the_same_to_a_shell() -> None:
    settings: Settings = {
        **{"CORES_OF": "0-3|4-7", "PLACE": "$HOME it's", "USES_IT": False},
        **{"quote": 'a "b" $c', "start": "-1", "on": True, "left": None},
    }
    line = serve_command(settings, ["--model=/m y"])
    script = f'vllm() {{ printf \'%s\\n\' "$CORES_OF" "$PLACE" "$@"; }}; {line}'
    words = subprocess.check_output(["sh", "-c", script], text=True).splitlines()
    flags = ["--quote", 'a "b" $c', "--start=-1", "--on"]
    assert words == ["0-3|4-7", "$HOME it's", "serve", "/m y", *flags]
    assert run_variables(settings)["USES_IT"] == "0"


def test_a_winners_file_has_its_very_settings(tmp_path: Path) -> None:
    settings: Settings = {"a": '\U0001f600\x7f\n"', "b": 1e-5, "c": False, "d": -1}
    (tmp_path / "winner.toml").write_text(space_text({**settings, "e": None}), encoding="utf-8")
    found = space_of(tmp_path / "winner.toml", {"e": (None, 1, 2)})
    assert found == {n: (None, v) for n, v in settings.items()}, "the default of e is not searched"


# Which figure of a run each target reads, and what a run says of its cost


def files(**summary: object) -> TrialFiles:
    return TrialFiles(Path("none"), Summary(**summary))  # type: ignore[arg-type]


def point(concurrency: int, tokens: int, tpot_ms: float, outcome: str = "measured") -> CurvePoint:
    times = {"duration_s": 10.0, "tpot_p90_ms": tpot_ms, "ttft_p90_ms": 50.0}
    return CurvePoint(concurrency, outcome, output_tokens=tokens, **times)  # type: ignore[arg-type]


def test_offline_reads_a_performance_runs_tokens_per_second() -> None:
    blocks = {"tokens_per_sec": (10.0, *[100.0, 104.0] * 10)}
    performance = PerformanceFigures(tokens_per_sec=90.0, blocks=blocks)
    figure = TARGETS["offline"].figure(files(run=Run(performance=performance)))
    assert figure and figure.rate == 90
    # The first block, which reads prompts, is no noise.
    assert figure.error == pytest.approx(0.039 * 1.05 / 21**0.5, rel=0.05)


def test_rates_are_those_of_the_peak_search() -> None:
    run = files(parts={"peak": PeakFigures(peak_qps=7.5, goodput_qps=9.0)})
    rates = {name: TARGETS[name].figure(run) for name in ("server", "interactive", "goodput")}
    assert [figure and figure.rate for figure in rates.values()] == [7.5, 7.5, 9.0]
    assert TARGETS["server"].figure(files(parts={"peak": PeakFigures()})) is None
    assert TARGETS["offline"].figure(run) is None


def test_a_curves_area_is_that_of_its_steps() -> None:
    points = (point(1, 500, 20), point(4, 1500, 40), point(16, 2000, 100), point(64, 9, 9, ""))
    figure = TARGETS["curve"].figure(files(parts={PART: CurveFigures("c", points=points)}))
    # 10 tokens/s per user at 200 of the system, from there 150 up to 25 and 50 up to 50.
    assert figure and figure.rate == pytest.approx(10 * 200 + 15 * 150 + 25 * 50)
    assert TARGETS["curve"].figure(files()) is None


def test_what_a_run_costs(tmp_path: Path) -> None:
    performance = PerformanceFigures(
        latency_ms={"p50": 800.0, "p99": 900.0}, ttft_ms={"p50": 20.0}, tpot_ms=None
    )
    summary = Summary(meta=Meta(scenario="Server"), run=Run(performance=performance))
    last = {"ttft_p99_ms": 400.0, "tpot_p99_ms": 30.5, "latency_p99_ms": 990.0}
    trials = [{"ttft_p99_ms": 999.0}, last]
    (tmp_path / "peak_qps.json").write_text(json.dumps({"trials": trials}))
    assert costs_of([TrialFiles(tmp_path, summary)]) == {
        "latency p50, ms": 800.0,
        "latency p99, ms": 900.0,
        "TTFT p50, ms": 20.0,
        "TTFT p99 at the rate, ms": 400.0,
        "TPOT p99 at the rate, ms": 30.5,
        "latency p99 at the rate, ms": 990.0,
    }


def test_what_took_no_time_is_no_cost(tmp_path: Path) -> None:
    times = {"issued_ms": [0.0] * 3, "finished_ms": [5.0] * 3, "first_token_ms": [5.0] * 3}
    timeline = {**times, "tokens": [9] * 3, "from_loadgen": True, "load": None}
    (tmp_path / "Accuracy").mkdir()
    (tmp_path / "Accuracy" / "timeline.json").write_text(json.dumps(timeline))
    assert costs_of([TrialFiles(tmp_path, Summary())]) == {"latency p50, ms": 5.0}
