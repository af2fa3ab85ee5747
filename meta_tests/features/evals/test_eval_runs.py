"""Tasks of lm-eval on engines that answer as they are told: scores, files, faults, going on."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import nltk
import pytest

from meta_tests.session.scripted_session import (
    Make,
    ScriptedEngine,
    ScriptedSession,
    shared_tokenizer,
)
from meta_tests.stand_in import StandInEngine
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines.protocol import EngineDescription, Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineDiedError, UsageError
from mlperf_suite.features.evals.eval_key import EvalKey
from mlperf_suite.features.evals.eval_rules import EvalFacts
from mlperf_suite.features.evals.figures import EvalFigures, evals_of
from mlperf_suite.features.evals.lm_eval_tasks import draw, read_task
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.rules import judge
from mlperf_suite.scorers import rouge
from mlperf_suite.session.timing.forecast import forecast
from mlperf_suite.settings import resolve_settings

FACTS, SUMS = EvalKey("embedded_facts"), EvalKey("embedded_sums")


class Reckoner(ScriptedEngine):
    """Adds up the last sum of a prompt, says more than it is asked, and finds every continuation
    less likely than the one before. `ends`: after how many requests, and with what."""

    ends: tuple[int, BaseException] | None = None

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(settings, dies_in)
        self._answer = self._reckoned
        self.prompts: list[str] = []

    def _begin(self, ids: Sequence[int]) -> str:
        if self.ends is not None and len(self.prompts) == self.ends[0]:
            raise self.ends[1]
        text = str(shared_tokenizer(str(embedded_model_dir())).decode(ids))
        self.prompts.append(text)
        return text

    def _reckoned(self, ids: Sequence[int]) -> list[int]:
        found = re.findall(r"(\d+) \+ (\d+)\?", self._begin(ids))[-1]
        text = f" {sum(map(int, found))}\nQuestion: What is 1 + 1?\nAnswer: 2 and so on and on"
        tokens: list[int] = shared_tokenizer(str(embedded_model_dir()))(text)["input_ids"]
        return tokens

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            self._begin(request.prompt_token_ids)
            count = range(len(request.continuations))
            likelihoods = tuple(Likelihood(-float(n), n == 0) for n in count)
            yield request.tag, Score(likelihoods, 1.0, len(request.prompt_token_ids), 3)


class Silent(StandInEngine):
    """Gives no log-probabilities, and answers at once."""


def figures_of(session: ScriptedSession, key: EvalKey) -> EvalFigures:
    summary = read_summary(session.recorder.result_of(key).folder.path)
    assert summary is not None
    figures = evals_of(summary)
    assert figures is not None, summary.meta.reason
    return figures


def rows_of(session: ScriptedSession, key: EvalKey) -> list[dict[str, Any]]:
    folder: Path = session.recorder.result_of(key).folder.path
    return [json.loads(line) for line in (folder / "responses.jsonl").read_text().splitlines()]


def test_both_kinds_of_requests_are_answered_on_one_engine(make: Make) -> None:
    session = make(FACTS, SUMS, kind=Reckoner, limit="12")
    assert [step.kind for step in session.suite.plan.steps] == ["load", "evals", "evals"]
    for key in (FACTS, SUMS):
        assert session.suite.make(key).ok
    session.suite.close()
    assert session.loaded == ["scoring"]
    sums, facts = figures_of(session, SUMS), figures_of(session, FACTS)
    # Each answer went on after its end.
    assert (sums.score.value, sums.cut, sums.shots, sums.planned) == (100.0, 0, 5, 12)
    assert {row["responses"][0] for row in rows_of(session, SUMS)} == {
        f" {row['target']}" for row in rows_of(session, SUMS)
    }
    first = sum(row["target"] == 0 for row in rows_of(session, FACTS))
    assert facts.score.value == pytest.approx(100 * first / 12)
    assert (facts.metric, facts.cached_tokens, sums.available) == ("acc,none", 36, 40)
    # What the gate reads, and a tracker gets, has no text.
    lines = (session.folder / "documents.jsonl").read_text().splitlines()
    assert [{*json.loads(line)} for line in lines] == [{"task", "document", "score"}] * 12
    folders = run_folders(session.folder.parent)
    assert {folder.name.partition("-evals-")[2] for folder in folders} == {FACTS.task, SUMS.task}
    assert "12 of 40 documents" in (session.folder / "report.md").read_text()
    index = (session.folder.parent / "index.md").read_text()
    assert r"embedded\_sums 100.00%" in index


def test_an_interrupted_run_goes_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reckoner, "ends", (5, EngineDiedError("died as told")))
    died = make(FACTS, kind=Reckoner, limit="12")
    assert died.suite.make(FACTS).failure == "embedded_facts: died as told"
    died.suite.close()
    monkeypatch.setattr(Reckoner, "ends", None)
    again = make(FACTS, kind=Reckoner, limit="14", task_resume=True)
    assert again.suite.make(FACTS).ok
    again.suite.close()
    figures = figures_of(again, FACTS)
    # The draw of fourteen has the twelve, and what was answered is not asked again.
    assert (figures.resumed, len(again.engines[0].prompts)) == (5, 9)
    assert figures.documents_per_sec is None
    # Only what was interrupted is taken over.
    third = make(FACTS, kind=Reckoner, limit="14", task_resume=True)
    assert third.suite.make(FACTS).ok
    third.suite.close()
    assert figures_of(third, FACTS).resumed == 0


def test_examples_are_turns_of_the_models_template(make: Make) -> None:
    session = make(
        SUMS, kind=Reckoner, limit="2", task_chat_template="true", task="embedded_sums@2"
    )
    assert session.suite.make(SUMS).ok
    session.suite.close()
    prompt = session.engines[0].prompts[0]
    assert prompt.startswith("<|im_start|>") and prompt.count("<|im_start|>user") == 3
    assert prompt.count("<|im_start|>assistant") == 3
    figures = figures_of(session, SUMS)
    assert (figures.chat_template, figures.shots, figures.score.value) == (True, 2, 100.0)


def test_an_engine_without_log_probabilities_is_not_judged(make: Make) -> None:
    session = make(FACTS, kind=lambda *told: Silent(ScriptedEngine(*told).delays, lambda p: [1]))
    assert session.suite.make(FACTS).ok
    session.suite.close()
    verdicts = session.recorder.verdicts(FACTS)
    assert {verdict.status for verdict in verdicts} == {"not judged"}


def test_a_prompt_that_does_not_fit_is_named(make: Make, tmp_path: Path) -> None:
    folder = own_task(tmp_path, generation_kwargs={"max_gen_toks": 9000, "until": ["x"]})
    key = EvalKey("own")
    session = make(key, kind=Reckoner, task="own", task_folder=folder)
    failure = session.suite.make(key).failure
    assert failure is not None and "own, document 1 of this run: a prompt of" in failure
    assert "9,000 of the answer do not fit the engine's context of 8,192" in failure


def test_an_answer_that_ends_at_the_limit_is_counted(make: Make, tmp_path: Path) -> None:
    folder = own_task(tmp_path, generation_kwargs={"max_gen_toks": 3, "until": ["never"]})
    key = EvalKey("own")
    session = make(key, kind=Reckoner, task="own", task_folder=folder)
    assert session.suite.make(key).ok
    session.suite.close()
    figures = figures_of(session, key)
    assert (figures.cut, figures.generated_tokens, figures.planned) == (1, 3, 1)
    page = (session.folder / "report.md").read_text()
    assert "1 answer ended at the task's limit of tokens" in page


@pytest.mark.parametrize(
    ("facts", "failed"),
    [
        (EvalFacts(3, 3), set()),
        (EvalFacts(3, 2), {"evals_all_answered"}),
        (EvalFacts(3, 3, ("2 answers from another model",)), {"evals_answers_as_asked"}),
    ],
    ids=["whole", "one absent", "another model"],
)
def test_a_rule_fails_on_its_own(facts: EvalFacts, failed: set[str]) -> None:
    assert {verdict.rule for verdict in judge(facts) if verdict.status == "failed"} == failed


class Measured(Reckoner):
    """Is no stand-in, so that later sessions expect its speed."""

    @property
    def description(self) -> EngineDescription:
        return replace(super().description, stand_in=False)


def test_a_task_is_expected_to_take_as_long_as_the_last_time(make: Make) -> None:
    session = make(SUMS, kind=Measured, limit="12")
    assert session.suite.make(SUMS).ok
    rate = figures_of(session, SUMS).documents_per_sec
    assert rate
    same: list[dict[str, str]] = [{}, {"limit": "8"}, {"task": "embedded_sums@5"}]
    # Of other work, or on another system, it shows nothing.
    others = [{"task_chat_template": "true"}, {"precision": "fp32"}, {"task": "embedded_sums@2"}]
    for options in (*same, *others):
        suite = make(SUMS, **options).suite
        told = forecast(suite.settings, suite.plan)
        assert told.kept is (options in same)
        seconds = told.seconds.get(suite.plan.steps[-1])
        assert (seconds == int(options.get("limit", 40)) / rate) is told.kept
    # No embedded task's usual lengths are those of two examples.
    lines = suite.plan.lines(told.seconds, told.source, suite.announce(told.seconds))
    assert lines[0].startswith("plan: 2 steps, more than ") and lines[2].endswith("not known")
    assert suite.time_line.startswith("planned more than ")


# The tasks


def own_task(folder: Path, **changed: Any) -> str:
    """A folder with the task `own`, of one document."""
    config = {
        "task": "own",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "own.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "num_fewshot": 0,
        "doc_to_text": "What is {{a}}+{{a}}? 1 + 1?",
        "doc_to_target": "{{a}}",
        **changed,
    }
    # JSON is YAML.
    (folder / "own.yaml").write_text(json.dumps(config))
    (folder / "own.jsonl").write_text('{"a": "1"}\n')
    return str(folder)


@pytest.mark.parametrize(
    ("changed", "shots", "words"),
    [
        ({"output_type": "loglikelihood_rolling"}, None, "asks for loglikelihood_rolling"),
        ({"unsafe_code": True}, None, "runs the model's programs"),
        ({"generation_kwargs": {"num_beams": 4}}, None, "asks for num_beams"),
        ({}, 3, "--task own@3: own is a task without examples"),
        ({"test_split": "nowhere"}, None, "cannot be read: KeyError: 'nowhere'"),
    ],
    ids=["rolling", "programs", "beams", "examples", "split"],
)
def test_a_task_that_cannot_be_run_is_a_usage_error(
    tmp_path: Path, changed: dict[str, Any], shots: int | None, words: str
) -> None:
    settings = resolve_settings({"task_folder": own_task(tmp_path, **changed)}, {})
    with pytest.raises(UsageError) as error:
        read_task("own", shots, settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_ifeval_needs_is_said_before_anything_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its modules, and NLTK's data, without which its answers could not be scored."""
    settings = resolve_settings({"task_data": str(tmp_path)}, {})
    monkeypatch.setitem(sys.modules, "langdetect", None)
    with pytest.raises(UsageError, match=r"--task ifeval: .*: pip install 'lm_eval\[ifeval\]'$"):
        read_task("ifeval", None, settings)
    for module in ("langdetect", "immutabledict"):
        monkeypatch.setitem(sys.modules, module, MagicMock())
    (tmp_path / "IFEval").mkdir()
    row = {"prompt": "Say hello.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    (tmp_path / "IFEval" / "train.jsonl").write_text(json.dumps({"key": 1} | row))
    monkeypatch.setattr("nltk.data.path", [])
    assert read_task("ifeval", None, settings).planned == 1
    assert nltk.data.find("tokenizers/punkt_tab")
    monkeypatch.setattr(rouge, "_has_punkt", lambda: False)
    with pytest.raises(UsageError, match="NLTK's punkt_tab is missing"):
        read_task("ifeval", None, settings)


def test_the_draw_is_the_same_each_time_and_a_smaller_one_part_of_it() -> None:
    sizes = {"a": 1000, "b": 10}
    some, more = draw("task", sizes, 20), draw("task", sizes, 200)
    assert some == draw("task", sizes, 20) != draw("another", sizes, 20)
    assert sum(map(len, some.values())) == 20
    assert all(set(numbers) <= set(more[task]) for task, numbers in some.items())
    assert all(numbers == sorted(numbers) for numbers in more.values())
    assert draw("task", sizes, None) == {"a": [*range(1000)], "b": [*range(10)]}
    assert more["a"][:4] == [0, 5, 8, 13], "other documents than in kept runs"
