"""The proof's data are official in shape, size, length and score, and its runs are all there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.submission.__main__ import check_tree
from evidence.submission.data import (
    ANSWERS,
    DATASETS,
    MODEL,
    SAMPLES,
    MadeSample,
    make_samples,
    write_data,
)
from evidence.submission.model import WORDS
from evidence.submission.runs import LOADGEN, ProofRun, make_runs, proof_runs
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import (
    BENCHMARKS,
    EDGE,
    LLAMA3_1_8B,
    LLAMA3_1_8B_EDGE,
    OFFICIAL,
)
from mlperf_suite.benchmarks.prompts import SUMMARIZE, end_of_text_ids, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines.model_files import weight_fault
from mlperf_suite.scorers.rouge import ROUGE_NAMES, mean_scores, score_pairs

EACH = pytest.mark.parametrize("row", BENCHMARKS, ids=lambda row: row.id)


@pytest.fixture(scope="module")
def samples() -> list[MadeSample]:
    return make_samples()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, samples: list[MadeSample]) -> Path:
    folder = tmp_path_factory.mktemp("proof")
    write_data(folder, samples)
    return folder


# Data


def test_the_data_are_the_same_at_every_call(samples: list[MadeSample]) -> None:
    assert make_samples(200) == samples[:200]
    assert len({sample.item.input for sample in samples}) == len(samples) == SAMPLES


def test_no_two_words_have_the_same_stem() -> None:
    from nltk.stem.porter import PorterStemmer

    stems = {PorterStemmer().stem(word) for word in WORDS}
    assert len(stems) == len(WORDS) > 300


@EACH
def test_the_loader_reads_as_many_items_as_the_official_file_has(
    data: Path, row: Benchmark
) -> None:
    news = load_news(str(data / DATASETS[row.id]))
    assert len(news.items) == row.samples
    workload = row.workload
    assert workload is not None
    full = load_news(str(data / DATASETS[LLAMA3_1_8B.id]))
    # The edge items are the very ones that the suite draws from the full split.
    assert news.items == workload.select(full).items
    assert all(60 <= len(item.input.split()) <= 120 for item in news.items)


@EACH
def test_answers_score_and_measure_what_the_official_gate_asks(data: Path, row: Benchmark) -> None:
    reference = {score.name: score.value for score in row.reference.scores}
    items = load_news(str(data / DATASETS[row.id])).items
    answers = json.loads((data / ANSWERS).read_text())
    gen_len = sum(len(answers[item.input].strip()) for item in items)
    assert 0.99 < gen_len / reference["gen_len"] < 1.01
    scores = mean_scores(
        score_pairs([(answers[item.input], item.reference) for item in items[:400]])
    )
    for name in ROUGE_NAMES:
        assert 0.99 < scores.values[name] / reference[name] < 1.05, name


def test_the_model_folder_is_known_as_the_official_model(data: Path) -> None:
    config = json.loads((data / MODEL / "config.json").read_text())
    for workload in (OFFICIAL, EDGE):
        assert workload.is_model(str(data / MODEL), config)
    assert not weight_fault(data / MODEL)


def test_the_model_folder_makes_prompts_and_answers_as_llamas_does(
    data: Path, samples: list[MadeSample]
) -> None:
    tokenizer = load_tokenizer(str(data / MODEL))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (128_000, 128_009)
    assert end_of_text_ids(str(data / MODEL), tokenizer) == LLAMA3_1_8B.eos_token_ids
    first_samples = samples[:500]
    prompts = OFFICIAL.prompt.encode([sample.item for sample in first_samples], tokenizer)
    assert all(prompt.count(tokenizer.bos_token_id) == 1 for prompt in prompts)
    assert all(prompt[0] == tokenizer.bos_token_id for prompt in prompts)
    text = tokenizer.decode(prompts[0], skip_special_tokens=True)
    assert text == SUMMARIZE.format(input=first_samples[0].item.input)
    answers = tokenizer([sample.answer for sample in samples], add_special_tokens=False)
    with_end = [[*answer, tokenizer.eos_token_id] for answer in answers["input_ids"]]
    assert max(map(len, with_end)) <= OFFICIAL.generation.max_new_tokens
    texts = tokenizer.batch_decode(with_end[:500], skip_special_tokens=True)
    assert texts == [sample.answer for sample in first_samples]


# Runs


def test_every_scenario_of_every_round_is_run_by_the_official_rules(tmp_path: Path) -> None:
    runs = proof_runs(tuple(ROUNDS), [row.id for row in BENCHMARKS])
    assert len(runs) == len({run.name for run in runs}) == 15
    assert set(LOADGEN) == set(ROUNDS)
    for run in runs:
        options = dict(zip(*[iter(run.options(tmp_path, tmp_path))] * 2, strict=False))
        assert (options["--profile"], options["--round"]) == ("official", run.round)
        scenario = run.scenario
        category = "edge" if run.benchmark == LLAMA3_1_8B_EDGE.id else "datacenter"
        assert options["-m"] == f"{category} and {scenario.lower()}"
        assert {"accuracy", "performance"} <= set(run.paces)
        assert options["--benchmark"] == run.benchmark
        assert ("test06" in run.paces) >= (run.benchmark == LLAMA3_1_8B.id)


def test_single_stream_takes_ten_minutes_for_what_loadgen_asks() -> None:
    run = ProofRun("v6.1", LLAMA3_1_8B_EDGE.id, "SingleStream")
    accuracy, performance = run.paces["accuracy"], run.paces["performance"]
    # Twice 600 s of the rate seen before, then up to whole multiples of 5,000: 10,000 queries.
    assert 5_000 < 1_200 * accuracy.samples_per_s < 10_000
    assert 600 < 10_000 / performance.samples_per_s < 610


class Told(ProofRun):
    """A run that is another program; `alive` counts those beside each other."""

    alive: list[subprocess.Popen[bytes]] = []  # noqa: RUF012 - the tests' own
    most = 0

    def start(self, work: Path) -> subprocess.Popen[bytes]:
        self.results(work).mkdir(parents=True)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"])
        self.alive.append(process)
        Told.most = max(Told.most, sum(p.poll() is None for p in self.alive))
        if self.scenario != "Server":
            folder = self.results(work) / "20261120-101500-llama3.1-8b-offline"
            folder.mkdir()
            (folder / "summary.json").write_text('{"meta": {"status": "complete"}}')
        return process


def test_runs_go_on_beside_each_other_and_the_failed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.submission.runs._TICK_S", 0.05)
    runs = [Told("v6.1", LLAMA3_1_8B.id, name) for name in ("Offline", "Server", "Interactive")]
    lines: list[str] = []
    failures = make_runs(runs, tmp_path, 2, lines.append)
    assert failures == [runs[1]]
    assert Told.most == 2
    assert len(lines) == 6
    assert sum("FAILED" in line for line in lines) == 1
    assert runs[0].finished(tmp_path) is not None


def test_an_interrupt_ends_the_sessions_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    Told.alive.clear()
    monkeypatch.setattr("evidence.submission.runs.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_runs([Told("v6.1", LLAMA3_1_8B.id, "Offline")], tmp_path, 1, lambda line: None)
    (process,) = Told.alive
    assert process.poll() is not None


# The checker's word


@pytest.mark.parametrize(
    ("says", "closing", "accepted"),
    [
        ("'[time main.py:9 INFO] Results %s/a 1.5' % tree, ok", ["Results a 1.5", "OK"], True),
        ("'[time main.py:9 ERROR] NoResults %s/a' % tree, bad", ["NoResults a", "BAD"], False),
        ("'Traceback', 'KeyError: x'", ["KeyError: x"], False),
    ],
)
def test_the_checkers_closing_lines_are_shown(
    tmp_path: Path, says: str, closing: list[str], accepted: bool
) -> None:
    checker = tmp_path / "tools" / "submission" / "submission_checker"
    checker.mkdir(parents=True)
    (checker / "__init__.py").touch()
    (checker / "main.py").write_text(
        "import sys\n"
        "tree = sys.argv[sys.argv.index('--input') + 1]\n"
        "ok = '[time main.py:1 INFO] SUMMARY: submission looks OK'\n"
        "bad = '[time main.py:1 ERROR] SUMMARY: submission has errors'\n"
        "print('[time base.py:5 INFO] anything')\n"
        f"print({says}, sep='\\n')\n"
    )
    words = {"OK": "SUMMARY: submission looks OK", "BAD": "SUMMARY: submission has errors"}
    result = check_tree(tmp_path / "v6.1", tmp_path, "v6.1")
    assert result == ([words.get(line, line) for line in closing], accepted)
    assert "anything" in (tmp_path / "v6.1.checker.log").read_text()
