"""Packages of MLPerf Endpoints, built of the client's files and submission.toml."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from meta_tests.features.endpoints.made_package import client_point_config
from meta_tests.features.submission.made_curve import (
    FACTS,
    build,
    point_of,
    write_curve,
    write_facts,
    write_replay,
    write_tokenizer,
)
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    PART,
    CurveFigures,
    CurvePoint,
)
from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import Summary

pytestmark = pytest.mark.usefixtures("yaml_once")
Capture = pytest.CaptureFixture[str]
NEEDED = re.compile(r"(?!tensor|data_par|cooling|accelerator|host_processors|tdp|method)\w+ = ")
"""A line of submission.toml that no package can do without."""
SAMPLES = 400
"""Of a data set that is small enough for a run with its events."""


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of a curve of llama3_1-8b, which tests leave as they are."""
    return write_curve(tmp_path_factory.mktemp("curve"))


Built = Callable[[str, bool], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds the package of a model once, with a dedicated Offline point or without; the folder
    with out/ in it."""

    @cache
    def make(model: str, dedicated: bool) -> Path:
        root = tmp_path_factory.mktemp("built")
        write_curve(root, model, dedicated=dedicated)
        write_facts(root, model)
        assert build(root) == 0
        return root

    return make


@pytest.mark.parametrize(
    ("model", "dedicated"), [*((model, False) for model in SERIES_MODELS), ("llama3_1-8b", True)]
)
def test_a_package_of_complete_points_stands(built: Built, model: str, dedicated: bool) -> None:
    (group,) = judge_folder(built(model, dedicated) / "out" / "Someone" / "box-2026")
    assert [v.line for v in group.verdicts if v.status == "failed"] == []


def test_accuracy_may_have_a_run_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    curve = write_curve(tmp_path)
    (tmp_path / "scored" / "report").mkdir(parents=True)
    (curve / "c64" / "accuracy").rename(tmp_path / "scored" / "report" / "accuracy")
    facts = FACTS + '[point.64]\naccuracy = "scored"\n'
    (tmp_path / "submission.toml").write_text(facts)
    config = tmp_path / "scored" / "report" / "config.yaml"
    for concurrency, status in ((24, 2), (64, 0)):
        config.write_text(yaml.safe_dump(client_point_config(concurrency)))
        assert build(tmp_path) == status
    assert "[point.64]" in (error := capsys.readouterr().err)
    assert "accuracy at concurrency 24" in error
    point = point_of(tmp_path, 64)
    assert point["dataset_type"] == "Accuracy + Performance"
    assert "accuracy" not in point
    shutil.rmtree(tmp_path / "scored")
    shutil.rmtree(tmp_path / "out")
    assert build(tmp_path) == 2
    assert "no accuracy_results.json" in capsys.readouterr().err


def test_an_accuracy_run_too_many_is_refused_or_left_out(tmp_path: Path, capsys: Capture) -> None:
    curve = write_curve(tmp_path)
    for name in ("c128", "c256"):
        shutil.copytree(curve / "c64" / "accuracy", curve / name / "accuracy")
    write_facts(tmp_path)
    assert build(tmp_path) == 2
    assert "one too many" in capsys.readouterr().err
    left_out = "".join(f"[point.{c}]\naccuracy = false\n" for c in (128, 256))
    (tmp_path / "submission.toml").write_text(FACTS + left_out)
    assert build(tmp_path) == 0
    assert point_of(tmp_path, 128)["dataset_type"] == "Performance"


def refusals_of(root: Path, curve: Path, facts: str, capsys: Capture) -> list[str]:
    (root / "submission.toml").write_text(facts)
    assert build(root, curve=curve) == 2
    assert {path.name for path in root.iterdir()} == {"submission.toml"}
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if line.startswith("refused: ")] or lines


def test_each_missing_fact_is_named(tmp_path: Path, curve: Path, capsys: Capture) -> None:
    assert build(tmp_path, curve=curve) == 2
    errors = capsys.readouterr().err.splitlines()
    needed = [line for line in FACTS.splitlines() if NEEDED.match(line)]
    assert min(len(errors), len(needed)) > 15
    assert all(" lacks " in line for line in errors[:-1])
    for line in needed:
        facts = FACTS.replace(line + "\n", "", 1)
        (refusal,) = refusals_of(tmp_path, curve, facts, capsys)
        name = line.partition(" ")[0]
        assert re.search(rf"submission.toml lacks .*\b{name}\b", refusal), line


def test_of_the_suites_own_curve_points_are_refused_and_its_search_left_out(
    tmp_path: Path, capsys: Capture
) -> None:
    curve = write_curve(tmp_path)
    write_facts(tmp_path)
    summary = Summary(parts={PART: CurveFigures("mlperf-suite 1.0", rehearsal=True)})
    write_json(curve / "summary.json", summary.as_json())
    assert build(tmp_path) == 2
    refusal, outcome = capsys.readouterr().err.splitlines()
    assert refusal.startswith(f"refused: {curve}: {NO_ENDPOINTS_RESULT}")
    assert outcome.startswith("no package was written")
    points = [CurvePoint(int(p.name[1:]), "measured", folder=p.name) for p in curve.glob("c*")]
    shutil.copytree(curve / "c64", curve / "search" / "c64")
    figures = CurveFigures("inference-endpoint", rehearsal=False, points=tuple(points))
    write_json(curve / "summary.json", Summary(parts={PART: figures}).as_json())
    assert build(tmp_path) == 0


def test_a_second_curve_joins_the_package(tmp_path: Path, capsys: Capture) -> None:
    def write(model: str) -> Path:
        shutil.rmtree(tmp_path / "curve", ignore_errors=True)
        write_curve(tmp_path, model)
        return write_facts(tmp_path, model)

    for model in ("llama3_1-8b", "gpt-oss-120b"):
        write(model)
        assert build(tmp_path) == 0
    package = tmp_path / "out" / "Someone" / "box-2026"
    assert [g.count("failed") for g in judge_folder(package)] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"curve", "out", "submission.toml"}
    before = sorted((p, p.stat().st_mtime) for p in package.rglob("*"))
    capsys.readouterr()
    assert build(tmp_path) == 2
    assert "already has" in capsys.readouterr().err
    path = write("deepseek-r1")
    path.write_text(path.read_text().replace("value_w = 400", "value_w = 300"))
    assert build(tmp_path) == 2
    assert "an earlier curve of Box_of_eight has another one" in capsys.readouterr().err
    path.write_text(path.read_text().replace("Someone", "Another"))
    assert build(tmp_path) == 2
    assert "is not a package of" in capsys.readouterr().err
    assert sorted((p, p.stat().st_mtime) for p in package.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "instead", "words"),
    [
        ('benchmark = "llama3_1-8b"', 'benchmark = "bert"', "benchmark bert: one of"),
        ('organization = "Someone"', 'organization = "a/b"', "it names a folder"),
        ("core_count = 64", "core_count = 0", "host_processor_core_count 0: no count"),
        ("[[power.node_sets]]", "[[power.node_sets]]\n[[power.node_sets]]", "one for each"),
        ('cooling = "air"\nscale', 'cooling = "ice"\nscale', "[power]: Invalid enum value 'ice'"),
        ("[system]", 'source = "nowhere"\n[system]', "source nowhere: no folder"),
        ("[system]", 'tokenizer = "."\n[system]', "no tokenizer.json"),
        ("[system]", "[system", "not TOML"),
        ("[system]", "[system]\nmax_supported_concurrency = 32", "C_min of 1 to 32"),
        ("value_kw = 1.0", "value_kw = 1.0, value_w = 1.0", "accelerator: not one value"),
        ("[[power.node_sets]]\n\n[power.node_sets.", "[power.", "lacks [[power.node_sets]]"),
        ("accelerator_info = [", "accelerator_info = [{}, ", "required field `count_per_node`"),
        (FACTS[FACTS.index("[power.node_sets.") :], "", "component_sum without components"),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, curve: Path, line: str, instead: str, words: str, capsys: Capture
) -> None:
    assert line in FACTS
    (refusal,) = refusals_of(tmp_path, curve, FACTS.replace(line, instead, 1), capsys)[:1]
    assert words in refusal


@pytest.fixture
def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A curve of a small data set whose point at 64 has events, of a run whose warm-up has two
    requests of which one was answered."""
    model = "deepseek-r1"
    small = replace(SERIES_MODELS[model], samples=SAMPLES)
    monkeypatch.setitem(SERIES_MODELS, model, small)
    curve = write_curve(tmp_path, model)
    write_replay(curve, 64, model)
    warmup = '[warmup]\ndata_source = "made up"\nlogs_retained = true\n\n'
    facts = FACTS.replace("llama3_1-8b", model).replace("[system]", f"{warmup}[system]", 1)
    (tmp_path / "submission.toml").write_text(write_tokenizer(tmp_path) + facts)
    return curve


def test_the_steady_state_and_the_warm_up_are_computed_from_events(
    tmp_path: Path, replayed: Path, capsys: Capture
) -> None:
    assert build(tmp_path) == 0
    point = point_of(tmp_path, 64)
    state = point["steady_state"]
    assert (state["status"], state["verdict"]) == ("windowable", "STEADY STATE")
    assert state["window"]["super_pass_size"] == SAMPLES
    assert (state["window"]["super_pass_start"], state["window"]["super_pass_end"]) == (1, 5)
    assert state["window"]["n_samples"] == 5 * SAMPLES
    assert state["window"]["duration_s"] == pytest.approx(1500, rel=0.02)
    assert (point["warmup"]["requests_issued"], point["warmup"]["requests_completed"]) == (1, 1)
    assert point["warmup"]["data_source"] == "made up"
    assert "steady_state" not in point_of(tmp_path, 128)
    output = capsys.readouterr().out
    assert "r64: steady state from super-pass 1 to 5" in output
    assert "r16, r24, r128, r256, r512, r1024: no steady-state window" in output
    assert not list((tmp_path / "out").rglob("events.jsonl"))
    # Events of another run are refused.
    shutil.copyfile(replayed / "c64/events.jsonl", replayed / "c128/events.jsonl")
    shutil.rmtree(tmp_path / "out")
    assert build(tmp_path) == 2
    assert "package_distributions: found r128: issued" in capsys.readouterr().err
