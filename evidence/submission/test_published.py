"""The proof's data for the published benchmarks: official in size, above every gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.submission.published import PUBLISHED
from evidence.submission.replay_plugin import thought_out_answers
from evidence.submission.runs import ProofRun, inputs_of, proof_runs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.benchmarks.prompts import end_of_text_ids, load_tokenizer
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.scorers.scorer import Answer, reads_special_tokens

EACH = pytest.mark.parametrize("id_", [id_ for id_ in PUBLISHED if id_ != "llama2-70b-99"])
"""llama2-70b-99 has the data of llama2-70b-99.9."""


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
    # That the sandbox runs programs is tested elsewhere.
    scores = published.without_programs(scorer).score(answers)
    assert scores.not_judged == {}
    for gate in benchmark.reference.scores:
        score = scores.values[gate.name]
        assert gate.low(strict=True) < score < (gate.high or 100), gate.name


OFFLINE = [run for run in proof_runs(tuple(ROUNDS)) if run.scenario == "Offline"]


@pytest.mark.parametrize("run", OFFLINE, ids=str)
def test_an_offline_run_takes_ten_minutes_and_little_more(run: ProofRun, tmp_path: Path) -> None:
    samples = BENCHMARKS[run.benchmark].samples
    option, _, value = run.options(tmp_path, tmp_path)[-1].partition("=")
    assert option == "--offline-target-qps"
    # LoadGen's query: 1.1 x 600 s x the rate, and then up to whole multiples.
    assert float(value) * 660 <= samples
    assert 600 < samples / run.paces["performance"].samples_per_s < 610
