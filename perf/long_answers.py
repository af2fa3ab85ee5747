"""Measure what long answers cost the suite in memory and time, from LoadGen to the report.

    python -m perf.long_answers [--run 4388x4000] [--run 13368x128]

Each run is a separate pytest session: an accuracy run of llama3.1-8b's Offline scenario on a replay
engine, with the embedded model's tokenizer and its recombined news as data and answers. Prints how
long each part took, the peak memory of the session's process during it, and the sampled peak of all
its processes together. Verdicts do not matter here: answers of other lengths than the benchmark's
fail its rules.

The second half of this file is the plugin that these sessions load.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from mlperf_suite.assets import PROJECT_ROOT, embedded_model_dir
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines.replay import Pace, ReplayEngine
from mlperf_suite.loadgen import runner
from mlperf_suite.reports import writing
from mlperf_suite.scorers.rouge import RougeScorer
from mlperf_suite.session import executor
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.recorder import Recorder

_RUNS = ("4388x4000", "13368x128")
_TOLD = "LONG_ANSWERS"
_SAMPLED_S = 0.05
_SEED = 20_261_121
_MB = 1e6


@dataclass(frozen=True, slots=True)
class LongRun:
    """A session with a number of answers and tokens per answer."""

    answers: int
    tokens: int

    def write_data(self, path: Path) -> None:
        """Write a data set with one article per answer; each begins with its number."""
        chance, items = random.Random(_SEED), load_news("embedded").items  # noqa: S311 - no secret
        with path.open("w", encoding="utf-8") as file:
            for number in range(self.answers):
                article, summary = chance.choices(items, k=2)
                row = {"input": f"{number}: {article.input}", "output": summary.reference}
                file.write(json.dumps(row) + "\n")

    def command(self, data: Path, results: Path) -> list[str]:
        """The command that runs the session."""
        return [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "perf.long_answers", "--profile", "official", "--mode", "accuracy"),
            *("--benchmark", "llama3.1-8b", "--scenario", "Offline", "--warmup", "0"),
            *("--model", str(embedded_model_dir()), "--dataset", str(data)),
            *("--max-new-tokens", str(self.tokens), "--total-sample-count", str(self.answers)),
            *("--results-dir", str(results)),
        ]


def measure(run: LongRun, work: Path) -> None:
    """Make the run and print its table."""
    data, told, log = work / "news.jsonl", work / "parts.json", work / "session.log"
    run.write_data(data)
    with log.open("wb") as output:
        started = time.monotonic()
        session = subprocess.Popen(
            run.command(data, work / "results"),
            cwd=PROJECT_ROOT,
            env=os.environ | {_TOLD: json.dumps({"tokens": run.tokens, "parts": str(told)})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        highest = 0.0
        while session.poll() is None:
            highest = max(highest, _memory(session.pid))
            time.sleep(_SAMPLED_S)
    if not told.is_file():
        raise SystemExit(log.read_text(errors="replace"))
    parts: Mapping[str, list[float]] = json.loads(told.read_text())
    print(f"\n{run.answers:,} answers of {run.tokens:,} tokens:\n")
    print("| part | s | highest memory, MB |\n|---|---:|---:|")
    for name, (seconds, peak) in parts.items():
        print(f"| {name} | {seconds:.1f} | {peak / _MB:,.0f} |")
    whole = time.monotonic() - started
    print(f"| session, all its processes | {whole:.1f} | **{highest / _MB:,.0f}** (aim: 2,000) |")


def _memory(pid: int) -> float:
    """Bytes of a process and its descendants; shared pages count for each."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", action="append", dest="runs", help="answers x tokens; may be given again"
    )
    for told in parser.parse_args().runs or _RUNS:
        answers, tokens = told.split("x")
        with tempfile.TemporaryDirectory() as work:
            measure(LongRun(int(answers), int(tokens)), Path(work))


# The plugin.

_parts: dict[str, list[float]] = {}
"""By name, the seconds and the peak memory in bytes."""
_within: list[list[float]] = []
"""The current parts, nested."""


class _Replayed(Mapping[tuple[int, ...], Any]):
    """Answers to all prompts, cut from one long text, so that they take no memory."""

    def __init__(self, inputs: Inputs, tokens: int) -> None:
        texts = [item.input for item in load_news("embedded").items]
        ids = inputs.tokenizer("\n".join(texts), add_special_tokens=False)["input_ids"]
        self._tokens = tokens
        self._starts = len(ids)
        self._text = np.resize(np.array(ids, np.int32), self._starts + tokens)

    def __getitem__(self, prompt: tuple[int, ...]) -> npt.NDArray[np.int32]:
        start = hash(prompt) % self._starts
        return self._text[start : start + self._tokens]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(())

    def __len__(self) -> int:
        return self._starts


def pytest_mlperf_load_engine(inputs: Inputs) -> ReplayEngine:
    answers = _Replayed(inputs, json.loads(os.environ[_TOLD])["tokens"])
    return ReplayEngine(answers, {"accuracy": Pace(5000)}, inputs.model_path)


def pytest_configure() -> None:
    _note("data, prompts", Inputs, "prompts")
    _note("LoadGen's run", executor, "run_loadgen")
    _note("of it, its logs read", runner, "read_logs")
    _note("answers decoded", executor, "decoded")
    _note("answers written", writing, "write_samples")
    _note("scored", RougeScorer, "score")
    _note("judged", executor, "judge")
    _note("reports written", Recorder, "write")


def pytest_unconfigure() -> None:
    Path(json.loads(os.environ[_TOLD])["parts"]).write_text(json.dumps(_parts))


def _note(name: str, owner: Any, attribute: str) -> None:
    """Time each call of a function and record this process's peak memory during it."""
    inner: Callable[..., Any] = getattr(owner, attribute)

    @functools.wraps(inner)
    def timed(*args: Any, **named: Any) -> Any:
        _note_highest()
        # Linux: resets VmHWM, the peak memory.
        Path("/proc/self/clear_refs").write_text("5")
        part = _parts.setdefault(name, [0.0, 0.0])
        _within.append(part)
        started = time.monotonic()
        try:
            return inner(*args, **named)
        finally:
            part[0] += time.monotonic() - started
            _note_highest()
            _within.pop()

    setattr(owner, attribute, timed)


def _note_highest() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    highest = next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    for part in _within:
        part[1] = max(part[1], highest)


if __name__ == "__main__":
    main()
