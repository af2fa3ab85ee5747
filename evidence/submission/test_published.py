"""The proof's data for the published benchmarks: official in size, above every gate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evidence.submission.published import PROBLEMS, PUBLISHED, Published, write_published
from evidence.submission.replay_plugin import pytest_mlperf_load_engine, thought_out_answers
from evidence.submission.runs import ProofRun, proof_runs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.benchmarks.prompts import end_of_text_ids, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DeepseekR1Scorer
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GptOssScorer
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MixtralScorer
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.scorer import Answer, reads_special_tokens
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

EACH = pytest.mark.parametrize("id_", [id_ for id_ in PUBLISHED if id_ != "llama2-70b-99"])
"""llama2-70b-99 has the data of llama2-70b-99.9."""


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with a benchmark's made data in it, written once."""
    folder = tmp_path_factory.mktemp("published")

    def write(id_: str) -> Path:
        if not (folder / id_ / "answers.json").is_file():
            write_published(folder, PUBLISHED[id_])
        return folder

    return write


def inputs_of(id_: str, folder: Path) -> Inputs:
    """What a session of the proof is made of."""
    run = ProofRun("v6.1", id_, "Offline")
    words = run.options(folder, folder / "results")
    options = {
        words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(len(words) - 1)
    }
    names = ("benchmark", "profile", "model", "dataset", "code_problems")
    settings = resolve_settings({name: options[name] for name in names if name in options}, {})
    return Inputs(settings, [BENCHMARKS[id_]])


def test_every_published_benchmark_has_data_for_each_of_its_modes() -> None:
    own_proof = {"llama3.1-8b", "llama3.1-8b-edge"}
    without_loadgen = {
        benchmark.id for benchmark in BENCHMARKS.values() if benchmark.run_kind != LOADGEN
    }
    assert set(PUBLISHED) == set(BENCHMARKS) - own_proof - without_loadgen
    for published in PUBLISHED.values():
        audits = {audit.mode for audit in published.benchmark.audits}
        assert set(published.modes) == {"accuracy", "performance"} | audits
        for mode, file in published.modes.items():
            count = sum(samples for _, samples in published.files[file])
            assert count == published.benchmark.samples_of(mode), (published.benchmark.id, mode)


def test_every_scenario_that_a_round_offers_is_run() -> None:
    runs = proof_runs(tuple(ROUNDS))
    assert len(runs) == len({run.name for run in runs})
    sessions = {(run.round, run.benchmark, run.scenario) for run in runs}
    assert ("v5.1", "deepseek-r1", "Interactive") not in sessions
    assert ("v6.0", "deepseek-r1", "Interactive") in sessions
    assert not {benchmark for round_, benchmark, _ in sessions if round_ == "v5.1"} & {
        "gpt-oss-120b"
    }
    assert {run.benchmark for run in proof_runs(["v6.1"], ["mixtral-8x7b", "deepseek-r1"])} == {
        "deepseek-r1"
    }


@EACH
def test_the_session_takes_the_folder_for_the_benchmarks_own(
    folder_of: Callable[[str], Path], id_: str
) -> None:
    folder = folder_of(id_)
    inputs, benchmark = inputs_of(id_, folder), BENCHMARKS[id_]
    for mode in PUBLISHED[id_].modes:
        count = benchmark.samples_of(mode)
        assert len(inputs.samples(benchmark, mode).items) == count
        reference, why = inputs.reference(benchmark, count, mode)
        assert reference is not None, why
    inputs._check_model(benchmark)


@EACH
def test_prompts_and_answers_are_those_of_the_model(
    folder_of: Callable[[str], Path], id_: str
) -> None:
    folder = folder_of(id_)
    model = str(folder / id_ / "model")
    tokenizer = load_tokenizer(model)
    published, benchmark = PUBLISHED[id_], BENCHMARKS[id_]
    assert set(end_of_text_ids(model, tokenizer)) == set(benchmark.eos_token_ids)
    assert tokenizer.eos_token_id == published.tokens.special[published.tokens.end]
    inputs = inputs_of(id_, folder)
    prompts = {
        identity_of(prompt)
        for mode in published.modes
        for prompt in inputs.prompts(benchmark, mode)
    }
    assert len(prompts) == sum(
        count for samplers in published.files.values() for _, count in samplers
    )
    assert max(max(prompt) for prompt in inputs.prompts(benchmark)) < inputs.vocabulary


def right_where_it_says(answers: Sequence[Answer]) -> CodeGrades:
    """Grades programs of one line by the number that they end with and their tests want."""
    return CodeGrades(tuple(_number(a.text) == _answer_to(a.sample.reference) for a in answers))


def _number(program: str) -> int:
    return int(re.findall(r"\d+", program.partition("```")[0])[-1])


def _answer_to(reference: str) -> int:
    number = int(re.findall(r"\d+", reference)[-1])
    return number if reference.startswith("made-") else number - 1


@EACH
def test_answers_are_above_each_gate_and_below_each_limit(
    folder_of: Callable[[str], Path], id_: str
) -> None:
    folder = folder_of(id_)
    inputs, benchmark = inputs_of(id_, folder), BENCHMARKS[id_]
    published = PUBLISHED[id_]
    prepared = json.loads((folder / id_ / "answers.json").read_text())
    # Of each kind some, in the shares of the whole file.
    file = published.modes["accuracy"]
    kinds, start = [], 0
    for _, count in published.files[file]:
        # Prime to the shares that are wrong.
        kinds.append(range(start, start + count, 97 if count > 9000 else 23 if count > 4000 else 7))
        start += count
    indices = [index for kind in kinds for index in kind]
    tokens = thought_out_answers(inputs, {"accuracy": prepared["accuracy"]})
    samples = inputs.samples(benchmark, "accuracy").items
    prompts = inputs.prompts(benchmark, "accuracy")
    outputs = [tokens[identity_of(prompts[index])] for index in indices]
    if not inputs.generation(benchmark, "accuracy").keeps_eos:
        outputs = [ids[:-1] for ids in outputs]
    scorer = inputs.scorer(benchmark)
    special = reads_special_tokens(scorer)
    texts = inputs.tokenizer.batch_decode(outputs, skip_special_tokens=not special)
    answers = [
        Answer(samples[index], ids, text)
        for index, ids, text in zip(indices, outputs, texts, strict=True)
    ]
    if isinstance(scorer, MixtralScorer | DeepseekR1Scorer | GptOssScorer):
        # That the sandbox runs them is tested elsewhere.
        scorer = type(scorer)(right_where_it_says)
    scores = scorer.score(answers)
    assert scores.not_judged == {}
    for gate in benchmark.reference.scores:
        score = scores.values[gate.name]
        assert gate.low(strict=True) < score < (gate.high or 100), gate.name


def test_the_answers_of_gpt_oss_are_as_long_as_test09_wants(
    folder_of: Callable[[str], Path],
) -> None:
    benchmark = BENCHMARKS["gpt-oss-120b"]
    audit = benchmark.audit("test09")
    assert audit is not None and audit.mean_tokens is not None
    prepared = json.loads((folder_of(benchmark.id) / benchmark.id / "answers.json").read_text())
    lengths = [tokens for _, _, tokens in prepared["test09"]]
    low, high = audit.mean_tokens
    assert low * 1.05 < sum(lengths) / len(lengths) < high / 1.05


def test_the_problems_are_those_that_the_answers_solve(folder_of: Callable[[str], Path]) -> None:
    for id_, published in PUBLISHED.items():
        if published.with_problems:
            lines = (folder_of(id_) / id_ / PROBLEMS).read_text().splitlines()
            question_ids = {json.loads(line)["question_id"] for line in lines}
            assert _questions(published) == question_ids


def _questions(published: Published) -> set[object]:
    accuracy_samples = published.samples(published.modes["accuracy"])
    rows = [sample.row for sample in accuracy_samples]
    return {r["ground_truth"] for r in rows if "livecodebench" in str(r["dataset"])}


@pytest.mark.parametrize("run", proof_runs(tuple(ROUNDS)), ids=str)
def test_a_run_takes_ten_minutes_and_little_more(run: ProofRun, tmp_path: Path) -> None:
    samples = BENCHMARKS[run.benchmark].samples
    option, _, value = run.options(tmp_path, tmp_path)[-1].partition("=")
    if run.scenario == "Offline":
        assert option == "--offline-target-qps"
        # LoadGen's query: 1.1 x 600 s x the rate, and then up to whole multiples.
        assert float(value) * 660 <= samples
        assert 600 < samples / run.paces["performance"].samples_per_s < 610
    elif run.scenario != "SingleStream" and run.benchmark in PUBLISHED:
        times = float(value) * 625 / samples
        assert times == pytest.approx(round(times), abs=0.001)
        # Six standard deviations of a Poisson schedule of so many queries.
        assert 625 - 6 * (times * samples) ** 0.5 / float(value) > 600


def test_the_engine_answers_each_mode_with_what_was_prepared_for_it(
    folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = "gpt-oss-120b"
    folder, benchmark = folder_of(id_), BENCHMARKS[id_]
    run = ProofRun("v6.1", id_, "Offline")
    answers = run.answers(folder) | {"paces": {"accuracy": {"samples_per_s": 1000}}}
    monkeypatch.setenv("REPLAY", json.dumps(answers))
    inputs = inputs_of(id_, folder)
    engine = pytest_mlperf_load_engine(inputs)
    try:
        for mode in ("accuracy", "test07", "performance"):
            ids = engine._answer(inputs.prompts(benchmark, mode)[3])
            sample: Sample = inputs.samples(benchmark, mode).items[3]
            text = inputs.tokenizer.decode(ids)
            assert text.startswith("<|channel|>analysis<|message|>==")
            assert text.endswith("<|return|>") and sample.reference in text
    finally:
        engine.close()
