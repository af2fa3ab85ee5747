"""The embedded questions are of every subject, and their domains those of lm-eval."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import yaml

from mlperf_suite.features.mmlu.mmlu_questions import DOMAIN_OF, SUBJECTS, load_mmlu


def test_the_embedded_questions_are_of_every_subject_and_of_all_letters() -> None:
    mmlu = load_mmlu("embedded")
    assert sorted(mmlu.dev) == sorted(mmlu.test) == list(SUBJECTS)
    assert len(SUBJECTS) == 57
    assert {len(questions) for questions in mmlu.dev.values()} == {1}
    assert {len(questions) for questions in mmlu.test.values()} == {2}
    for split in (mmlu.dev, mmlu.test):
        assert all(len(set(q.choices)) == 4 for questions in split.values() for q in questions)
    right = Counter(q.answer for questions in mmlu.test.values() for q in questions)
    assert set(right) == {0, 1, 2, 3}
    assert max(right.values()) - min(right.values()) <= 10


def test_the_domains_are_those_of_lm_eval() -> None:
    spec = find_spec("lm_eval")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "tasks" / "mmlu" / "default"
    tags = {
        "mmlu_stem_tasks": "STEM",
        "mmlu_humanities_tasks": "Humanities",
        "mmlu_social_sciences_tasks": "Social Sciences",
        "mmlu_other_tasks": "Other",
    }
    domains = {}
    for path in folder.glob("mmlu_*.yaml"):
        task = yaml.safe_load(path.read_text())
        domains[task["dataset_name"]] = tags[task["tag"]]
    assert domains == DOMAIN_OF
