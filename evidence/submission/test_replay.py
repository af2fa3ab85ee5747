"""A session on a replay: the prepared answers stand in LoadGen's log, and its report says so."""

from __future__ import annotations

import json
from pathlib import Path

from evidence.submission.data import ANSWERS, MODEL, TOKENS, make_samples
from evidence.submission.model import write_model
from meta_tests.suite_runs import run_suite
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, OFFICIAL
from mlperf_suite.loadgen.logs import read_logs


def test_the_suite_runs_on_a_replay(tmp_path: Path) -> None:
    samples = make_samples(120)
    write_model(tmp_path / MODEL, OFFICIAL.model_identity.shape, LLAMA3_1_8B.eos_token_ids, TOKENS)
    rows = [{"input": s.item.input, "output": s.item.reference} for s in samples]
    (tmp_path / "news.json").write_text(json.dumps(rows))
    (tmp_path / ANSWERS).write_text(json.dumps({s.item.input: s.answer for s in samples}))
    tokens = {"answers": str(tmp_path / ANSWERS), "paces": {"test06": {"samples_per_s": 500}}}
    run = run_suite(
        tmp_path / "results",
        *("-m", "server and compliance", "--profile", "official"),
        *("--model", str(tmp_path / MODEL), "--dataset", str(tmp_path / "news.json")),
        *("-p", "evidence.submission.replay_plugin", "--server-target-qps", "200"),
        REPLAY=json.dumps(tokens),
    )
    assert run.exit_code == 0, run.output
    assert "made with a stand-in engine: not a measurement of any system" in run.output
    answers = read_logs(run.folder / "Compliance" / "TEST06").accuracy.first_of_each()
    assert len(answers) > 50
    assert all(answer.token_ids[-1] == 128_009 for answer in answers.values())
