"""The continuations that are scored are those of lm-eval."""

from __future__ import annotations

from pathlib import Path

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.features.mmlu.mmlu_questions import load_mmlu


def test_the_continuations_are_those_of_lm_eval(tmp_path: Path) -> None:
    from mlperf_suite.features.mmlu.engine_lm import EngineLM, load_tasks
    from mlperf_suite.features.mmlu.journal import Journal

    tokenizer = load_tokenizer(str(embedded_model_dir()))
    data = load_mmlu("embedded")
    tasks = load_tasks(data, data.selection(20), 1)["tasks"]
    lm = EngineLM(None, tokenizer, 8192, Journal(tmp_path / "journal", {}), lambda key: None)
    for task in tasks.values():
        task.build_all_requests()
        pairs = [request.args for request in task.instances]
        (result,) = lm.encode_questions([pairs])
        pair_ids = [lm._encode_pair(*pair) for pair in pairs]
        assert result == (pair_ids[0][0], [continuation for _, continuation in pair_ids])
        assert [tokenizer.decode(c) for c in result[1]] == [" A", " B", " C", " D"]
