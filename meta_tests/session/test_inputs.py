"""What a session knows of its own run without an engine: which baseline holds, what departs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.definition import LLAMA3_1_8B_EDGE
from mlperf_suite.session.executor import Session
from mlperf_suite.settings import resolve_settings

LLAMA = "llama3.1-8b-instruct"


def session(**options: Any) -> Session:
    def load(session: Session) -> Any:
        raise AssertionError("an engine was loaded")

    return Session(resolve_settings(options, {}), load, watcher=None)  # type: ignore[arg-type]


def own_data(folder: Path, samples: int) -> str:
    file = folder / f"{samples}.json"
    file.write_text(json.dumps([{"article": "a", "highlights": "b"}] * samples))
    return str(file)


@pytest.mark.parametrize("profile", ["smoke", "official"])
def test_the_official_baseline_is_of_the_official_data_alone(tmp_path: Path, profile: str) -> None:
    def known(dataset: str) -> bool:
        options = {"profile": profile, "model": LLAMA, "dataset": dataset}
        return session(**options).baseline("edge", 84) is not None

    assert not known("embedded")
    assert not known(own_data(tmp_path, 84))
    assert known("cnn_dailymail")
    assert known(own_data(tmp_path, LLAMA3_1_8B_EDGE.samples))


def test_the_embedded_baseline_is_of_the_embedded_model_and_data_alone(tmp_path: Path) -> None:
    assert session().baseline("edge", 84) is not None
    assert session(dataset=own_data(tmp_path, 84)).baseline("edge", 84) is None


def test_other_generation_than_the_benchmarks_departs() -> None:
    def departures(**options: Any) -> tuple[str, ...]:
        return resolve_settings(options, {}).departures

    assert departures() == departures(max_new_tokens="128") == ()
    assert departures(max_new_tokens="130") == ("at most 130 new tokens, not 128",)
    assert departures(engine_arg=["enable_prefix_caching=true"]) == ("a prefix cache",)
    assert departures(engine_arg=["enable_prefix_caching=false"]) == ()
