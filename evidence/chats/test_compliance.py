"""Made results of edge-agentic: the rules of messages fail each damage, and no honest result."""

from __future__ import annotations

from typing import Any

import pytest

from evidence.chats.compliance import DAMAGES, EXPLAINED, failures, honest

CONFIG: dict[str, Any] = {
    "model_params": {"temperature": 0, "seed": 42, "max_new_tokens": 1024},
    "settings": {
        "runtime": {"dataloader_random_seed": 42},
        "client": {"num_workers": 1, "max_connections": 1},
        "load_pattern": {"target_concurrency": 1},
    },
}
HONEST = ("nothing", "overall 83.65", "normalized 85.33")


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_fails_a_rule_and_an_honest_result_none(name: str) -> None:
    files = honest(CONFIG)
    DAMAGES[name](files)
    assert bool(failures(files)) is (name not in HONEST)


def test_what_is_explained_is_among_the_damages() -> None:
    assert set(EXPLAINED) <= set(DAMAGES) - set(HONEST)
