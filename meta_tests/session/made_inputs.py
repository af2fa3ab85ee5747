"""Inputs of sessions with a user's own data and models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings


def inputs(**options: Any) -> Inputs:
    return Inputs(resolve_settings(options, {}), [LLAMA3_1_8B, LLAMA3_1_8B_EDGE])


def own_data(folder: Path, samples: int) -> str:
    file = folder / f"{samples}.json"
    file.write_text(json.dumps([{"article": "a", "highlights": "b"}] * samples))
    return str(file)


def own_model(folder: Path, **changed: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**OFFICIAL.marks.shape, **changed}))
    return str(folder)
