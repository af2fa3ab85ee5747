"""Whose model a folder's files are: each benchmark's, or a sibling's, made up here.

Every sibling that is known is in evidence/model_identity."""

import json
from pathlib import Path
from typing import Any

import pytest

from meta_tests.benchmarks.made_model_folder import EVERY_MARK, model_folder, workload_of
from meta_tests.session.scripted_session import inputs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.model_identity import EOS, TEMPLATE, model_facts
from mlperf_suite.errors import UsageError

ROWS = [row for row in BENCHMARKS.values() if row.workload and row.workload.model_identity.shape]
V3 = "<User>{{ content }}<Assistant>"


def facts_in(folder: Path) -> dict[str, Any]:
    def read(name: str) -> str | None:
        return (folder / name).read_text() if (folder / name).is_file() else None

    facts = model_facts(read)
    assert facts is not None
    return facts


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_copy_is_the_benchmarks_model_and_only_its_lookalikes_are_named(
    tmp_path: Path, row: Benchmark
) -> None:
    workload = workload_of(row)
    facts = facts_in(model_folder(tmp_path, row))
    assert workload.model_identity.differences(facts) == []
    assert workload.is_model("/models/copy", facts)
    names = [s.name for s in workload.model_identity.siblings if not s.distinguished_by]
    assert workload.model_identity.possible_models(facts) == names
    # A sibling is not one of its own.
    assert workload.model not in {s.name for s in workload.model_identity.siblings}


def changed(value: Any) -> Any:
    """Another value of an entry; of an object, of the last of its entries."""
    return value | {[*value][-1]: 1.5} if isinstance(value, dict) else "another"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_model_with_one_other_fact_is_not_the_benchmarks(tmp_path: Path, row: Benchmark) -> None:
    workload = workload_of(row)
    identity = workload.model_identity
    others = {name: changed(value) for name, value in identity.shape.items()}
    others |= ({EOS: 7} if identity.eos else {}) | ({TEMPLATE: V3} if identity.template else {})
    for name, value in others.items():
        facts = facts_in(model_folder(tmp_path, row, {name: value}))
        assert len(identity.differences(facts)) == 1
        assert not workload.is_model("/models/other", facts)
        # Nor by a name that says so.
        assert not workload.is_model(workload.model, facts)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_where_a_chat_template_would_tell_and_there_is_none_the_siblings_are_named(
    tmp_path: Path, row: Benchmark
) -> None:
    identity = workload_of(row).model_identity
    facts = facts_in(model_folder(tmp_path, row, {TEMPLATE: None}))
    assert identity.differences(facts) == []
    by_template = [s.name for s in identity.siblings if s.distinguished_by in ("", TEMPLATE)]
    assert identity.possible_models(facts) == by_template


@pytest.mark.parametrize("form", ["rope_parameters", "type", "jinja", "named", "list of one"])
def test_the_ways_to_write_the_same_facts_are_one(tmp_path: Path, form: str) -> None:
    row = BENCHMARKS["llama3.1-8b" if form in ("rope_parameters", "type") else "llama2-70b-99"]
    folder = model_folder(tmp_path, row)
    config = json.loads((folder / "config.json").read_text())
    tokenizer = {TEMPLATE: EVERY_MARK}
    match form:
        case "rope_parameters":
            config["rope_parameters"] = {**config.pop("rope_scaling"), "rope_theta": 500000.0}
        case "type":
            config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")
        case "jinja":
            (folder / "chat_template.jinja").write_text(tokenizer.pop(TEMPLATE))
        case "named":
            entries = [{"name": "tools", "template": V3}, {"name": "default", "template": V3}]
            entries[1]["template"] = tokenizer[TEMPLATE]
            tokenizer = {TEMPLATE: entries}  # type: ignore[dict-item]
        case _:
            config[EOS] = 2
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    assert workload_of(row).model_identity.differences(facts_in(folder)) == []


def test_a_folder_with_the_models_hub_id_for_a_name_is_judged_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = BENCHMARKS["llama3.1-8b"]
    model = workload_of(row).model
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlperf_suite.settings._in_hub_cache", lambda model: True)
    official = inputs(profile="official", model=model)
    official._check_model(row)
    model_folder(tmp_path / model, row, {"rope_scaling": None})
    with pytest.raises(UsageError, match=r"not llama3\.1-8b's model .*rope_scaling\.factor None"):
        inputs(profile="official", model=model)._check_model(row)
    model_folder(tmp_path / model, row)
    inputs(profile="official", model=model)._check_model(row)


def test_what_the_files_do_not_show_is_said(tmp_path: Path) -> None:
    row, llama2 = BENCHMARKS["llama3.1-8b"], BENCHMARKS["llama2-70b-99"]

    def words(row: Benchmark, model: str, **options: Any) -> str:
        run_inputs = inputs(profile="official", benchmark=[row.id], model=model, **options)
        return run_inputs.possible_models(row)

    folder = str(model_folder(tmp_path / "copy", row))
    tail = "a model trained further from it"
    assert (
        words(row, folder) == f"its files do not distinguish {workload_of(row).model} from {tail}"
    )
    without_template = str(model_folder(tmp_path / "llama2", llama2, {TEMPLATE: None}))
    assert words(llama2, without_template) == (
        "its files do not distinguish meta-llama/Llama-2-70b-chat-hf from "
        f"meta-llama/Llama-2-70b-hf or {tail}"
    )
    # A hub id names one model, and another model has no reference.
    assert words(row, workload_of(row).model) == ""
    assert words(row, str(model_folder(tmp_path / "other", row, {EOS: 128001}))) == ""
    assert inputs(profile="smoke").possible_models(row) == ""
