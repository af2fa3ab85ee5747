"""What runs of these benchmarks are made of: the data of each mode, what graders need."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest import MonkeyPatch

from meta_tests.session.scripted_session import inputs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.errors import UsageError
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B as GPT_OSS
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MIXTRAL_8X7B as MIXTRAL
from mlperf_suite.features.code_grading.sandbox.box import NoSandbox, Sandbox
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.settings import resolve_settings


def official_gpt_oss(folder: Path, kind: str = "gpqa", answers: bool = True, **counts: int) -> str:
    """A folder with the three files, two samples each, or as many as said."""
    for name in ("perf_eval_ref", "acc_eval_inputs", "acc_eval_compliance_gpqa"):
        count = counts.get(name, 2)
        tokens = [[count, number] for number in range(count)]
        rows: dict[str, list[Any]] = {"input_tokens": tokens, "dataset": [kind] * count}
        if answers or name == "perf_eval_ref":
            rows["ground_truth"] = ["A"] * count
        # Some in folders of their own, as they are published.
        file = folder / name.partition("_")[0] / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), file)
    return str(folder)


def test_only_answers_of_code_end_at_the_closing_fence() -> None:
    run_inputs = inputs(benchmark=["mixtral-8x7b"])
    kinds = [sample.kind for sample in run_inputs.samples(MIXTRAL).items]
    stops = run_inputs.stops(MIXTRAL, "performance")
    assert dict(zip(kinds, stops, strict=True)) == {"OpenOrca": "", "GSM8K": "", "MBXP": "\n```\n"}
    assert inputs().stops(LLAMA3_1_8B, "accuracy") == []
    workloads = (MIXTRAL.workload, DEEPSEEK_R1.workload, GPT_OSS.workload)
    assert [w.cleans_up_spaces for w in workloads if w] == [True, False, False]


def test_each_mode_departs_from_its_own_length() -> None:
    """10,240 tokens are right in performance, and cut an accuracy run's answers short."""
    for mode, tokens, found in (
        ("accuracy", None, ()),
        ("performance", None, ()),
        ("performance", "10240", ()),
        ("performance", "32768", ("at most 32768 new tokens, not 10240",)),
        ("accuracy", "10240", ("at most 10240 new tokens, not 32768",)),
    ):
        options: dict[str, Any] = {"max_new_tokens": tokens} if tokens else {}
        run_inputs = inputs(profile="official", benchmark=[GPT_OSS.id], **options)
        assert run_inputs.deviations(GPT_OSS, GPT_OSS.scenario("Offline"), {}, mode=mode) == found


def test_accuracy_data_of_another_kind_shows_no_rate_for_performance() -> None:
    """gpt-oss-120b's accuracy answers are some eight times as long."""
    for benchmark, rates in ((GPT_OSS.id, 1), ("llama2-70b-99", 0)):
        runs = [RunKey(benchmark, "Offline", mode) for mode in ("accuracy", "performance")]
        steps = plan_session(Selection(runs)).steps
        assert [step.kind for step in steps].count("rate") == rates


def test_a_search_is_of_a_round_that_offers_its_scenario() -> None:
    run_inputs = inputs(profile="official", benchmark=["deepseek-r1"], round="v5.1")
    run_inputs._check_round(DEEPSEEK_R1, ["Server"])
    with pytest.raises(UsageError, match=r"deepseek-r1 Interactive is part of v6\.0, v6\.1"):
        run_inputs._check_round(DEEPSEEK_R1, ["Interactive"])


def test_an_official_accuracy_run_asks_for_the_problems_of_its_programs() -> None:
    run_inputs = inputs(profile="official", benchmark=["deepseek-r1"])
    with pytest.raises(UsageError, match="--code-problems: deepseek-r1's answers contain programs"):
        run_inputs._check_scorer_option(DEEPSEEK_R1)
    for options in ({"profile": "official", "code_problems": __file__}, {}):
        inputs(benchmark=["deepseek-r1"], **options)._check_scorer_option(DEEPSEEK_R1)


def test_what_a_grader_lacks_is_said_before_a_run(monkeypatch: MonkeyPatch) -> None:
    """Hours later it would be in the report alone."""
    ids = ["mixtral-8x7b", "gpt-oss-120b"]
    offline = [RunKey(id_, "Offline", "accuracy") for id_ in ids]
    run_inputs = Inputs(resolve_settings({"benchmark": ids}, {}), [BENCHMARKS[id_] for id_ in ids])
    monkeypatch.setattr(Sandbox, "find", lambda: NoSandbox("forbidden"))
    assert run_inputs.not_judged(offline) == [
        f"{key.benchmark}: programs in answers will not be judged here: no sandbox: forbidden"
        for key in offline
    ]
    performance = [RunKey(key.benchmark, "Offline", "performance") for key in offline]
    assert run_inputs.not_judged(performance) == []
    assert inputs().not_judged([RunKey(LLAMA3_1_8B.id, "Offline", "accuracy")]) == []


def test_an_audits_data_are_known_by_their_own_size(tmp_path: Path) -> None:
    data = official_gpt_oss(tmp_path, acc_eval_compliance_gpqa=990, perf_eval_ref=6_395)
    run_inputs = inputs(benchmark=[GPT_OSS.id], profile="official", dataset=data)
    assert run_inputs.reference(GPT_OSS, 990, "test07") == (GPT_OSS.reference, "")
    assert run_inputs.reference(GPT_OSS, 989, "test07")[0] is None
    assert run_inputs.reference(GPT_OSS, 6_395, "test09")[0] is None
