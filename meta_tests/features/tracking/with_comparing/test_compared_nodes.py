"""The results of a tracker's experiment in `compare`."""

import json
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.tracking.fake_mlflow import FakeClient
from meta_tests.features.tracking.kept_results import kept
from mlperf_suite.__main__ import main
from mlperf_suite.features.tracking import sender
from mlperf_suite.features.tracking.mlflow_tracker import MlflowTracker
from mlperf_suite.features.tracking.tracked_result import tracked_result


def test_the_results_of_an_experiments_nodes_are_compared_by_one_command(
    tmp_path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The newest of each node; what cannot be compared, and a name of nothing, is one line."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker")
    read = lambda to, *how: MlflowTracker("", to.experiment, client).fetch(*how[:3])  # noqa: E731
    monkeypatch.setattr(sender, "fetch", read)
    tracker, results = MlflowTracker("", "ten", client), tmp_path / "results"
    nodes = [("b", "Server"), ("c", "Server"), ("a", "Server"), ("b", "Server"), ("a", "Offline")]
    for day, (node, scenario) in enumerate(nodes, 1):
        folder = kept(results, day, scenario, None, node_name=node)
        tracker.keep(tracked_result(folder), folder)
    ids = [run.info.run_id for run in client.runs if "-" in run.info.run_name]
    alone = kept(tmp_path / "here", 9, curve=None)

    def compared(*names: str, **options: str) -> tuple[int, str]:
        more = (f"--{name}={value}" for name, value in options.items())
        status = main(["compare", *names, *more, f"--plot={tmp_path}/plot.png"])
        said = capsys.readouterr()
        return status, " ".join((said.out + said.err).split())

    status, said = compared("mlflow:ten", measured="server", json=f"{tmp_path}/nodes.json")
    runs = json.loads((tmp_path / "nodes.json").read_text())["runs"]
    assert status == 0 and "Cannot tell whether c lost against a" in said
    assert [run["name"] for run in runs] == ["a", "b", "c"]
    assert [run["path"] for run in runs] == [f"mlflow:ten@{ids[n]}" for n in (2, 3, 1)]
    status, said = compared(str(alone), "mlflow:ten", f"mlflow:ten@{ids[0]}")
    assert status == 0 and "| 5 | 20261101-" in said and "| 6 |" not in said
    for words, name in {
        "has results of llama3.1-8b Offline, llama3.1-8b Server: --measured": "mlflow:ten",
        "no good result in the experiment other, or no such": "mlflow:other@last-good",
        "which experiment? mlflow:EXPERIMENT": "mlflow:",
    }.items():
        assert compared(name)[1].startswith(f"error: compare: {name}: {words}")
    assert "are not what is compared" in compared("mlflow:ten", measured="interactive")[1]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert "mlflow:ten: needs MLFLOW_TRACKING_URI" in compared("mlflow:ten")[1]
