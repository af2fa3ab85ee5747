"""Answers decoded together beside the tokenizer's own text of each."""

from __future__ import annotations

import random

import numpy as np

from mlperf_suite.loadgen.logs import TokenIds
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.scenario_runs import decoded
from mlperf_suite.settings import resolve_settings


def test_answers_are_decoded_as_each_would_be_alone() -> None:
    tokenizer = Inputs(resolve_settings({}), []).tokenizer
    eos = tokenizer.eos_token_id
    chance = random.Random(2)
    answers = [chance.choices(range(len(tokenizer)), k=chance.randrange(9)) for _ in range(150)]
    answers[70] = [eos, *answers[70], eos]
    alone = [tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
    as_logged = [TokenIds(np.array(ids, "<i4").tobytes()) for ids in answers]
    assert decoded(tokenizer, as_logged) == alone
    assert decoded(tokenizer, answers[:64]) == alone[:64]
    assert decoded(tokenizer, []) == []
