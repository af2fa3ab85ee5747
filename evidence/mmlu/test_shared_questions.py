"""MMLU's questions shared by two engines on a stand-in: the result of one."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_tests.session.scripted_session import (
    Make,
    ScriptedEngine,
    ScriptedSession,
    few_questions,
)
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineDiedError
from mlperf_suite.results.run_folder import run_folders
from mlperf_suite.session.plan import MMLU

ARGUMENTS = ("-m", "mmlu", "-p", "meta_tests.scoring_plugin")


class Scorer(ScriptedEngine):
    """Scores by the prompt's tokens alone, so that any two runs agree; `ends`: after how many
    questions, and with what."""

    ends: tuple[int, BaseException] | None = None
    asked = 0

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            if self.ends is not None and self.asked == self.ends[0]:
                self._died = isinstance(self.ends[1], EngineDiedError)
                raise self.ends[1]
            self.asked += 1
            best = zlib.crc32(str(request.prompt_token_ids).encode()) % 4
            likelihoods = tuple(Likelihood(-1.0 if i == best else -2.0, False) for i in range(4))
            yield request.tag, Score(likelihoods, 1.0, len(request.prompt_token_ids), 0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_suite(tmp_path_factory.mktemp("whole"), *ARGUMENTS, "--mmlu-details")


def folder_of(session: ScriptedSession) -> Path:
    mmlu = session.recorder.mmlu
    assert mmlu is not None and mmlu.folder is not None
    return mmlu.folder.path


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def samples(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# What a run leaves behind


# When things go wrong


# Several engines


def test_two_engines_make_one_result(make: Make, tmp_path: Path) -> None:
    words = ("-n", "2", "--dist", "loadgroup", "--mmlu-shots=0")
    data = f"--mmlu-data={few_questions(tmp_path)}"
    scoring = json.dumps({"engines": 2})
    shared = run_suite(tmp_path / "shared", *ARGUMENTS, *words, data, SCORING=scoring)
    assert shared.exit_code == 0, shared.output
    assert [p.name for p in run_folders(shared.results_dir)] == [shared.folder.name]
    assert not list(shared.results_dir.glob(".mmlu-*"))
    assert "of 24 questions" in shared.output
    alone = make(MMLU, kind=Scorer)
    assert alone.suite.make(MMLU).ok
    for name in ("overall.json", "by_domain.json", "by_subject.json"):
        assert read(shared.folder, name) == read(folder_of(alone), name)
