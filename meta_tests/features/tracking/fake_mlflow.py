"""MLflow's client as far as the suite uses it, in memory; its server may be cut off."""

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Page(list[Any]):
    token = ""


@dataclass
class FakeClient:
    """`left`: how many more calls that write are answered."""

    root: Path
    left: int = 10_000
    runs: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    tracking_uri: str = "http://user:planted-PASS@tracker:5000/team"

    def _write(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("cut off")

    def get_experiment_by_name(self, name: str) -> Any:
        known = name in self.names
        return SimpleNamespace(experiment_id=str(self.names.index(name))) if known else None

    def create_experiment(self, name: str) -> str:
        self._write()
        self.names.append(name)
        return str(len(self.names) - 1)

    def create_run(self, experiment: str, start: Any, tags: Any, run_name: str) -> Any:
        self._write()
        info = SimpleNamespace(run_id=f"{len(self.runs):032x}", status="RUNNING", start=start)
        info.run_name, info.experiment_id = run_name, experiment
        data = SimpleNamespace(tags=dict(tags), params={}, metrics=set())
        self.runs.append(SimpleNamespace(info=info, data=data))
        return self.runs[-1]

    def get_run(self, run_id: str) -> Any:
        return next(run for run in self.runs if run.info.run_id == run_id)

    def log_batch(
        self, run_id: str, params: Sequence[Any] = (), metrics: Any = (), tags: Any = ()
    ) -> None:
        self._write()
        assert max(len(params), len(metrics), len(tags)) <= 100
        data = self.get_run(run_id).data
        data.params.update(params)
        data.metrics.update(metrics)
        data.tags.update(tags)

    def log_artifacts(self, run_id: str, folder: str) -> None:
        self._write()
        shutil.copytree(folder, self.root / run_id, dirs_exist_ok=True)

    def set_terminated(self, run_id: str, status: str, end: Any) -> None:
        self._write()
        self.get_run(run_id).info.status = status

    def set_tag(self, run_id: str, name: str, value: str) -> None:
        self._write()
        self.get_run(run_id).data.tags[name] = value

    def search_runs(self, experiments: list[str], words: str, **more: Any) -> Page:
        tags = re.findall(r"tags\.`([\w.]+)` (?:= '(.*?)'|LIKE '%')", words)
        status = re.search(r"status = '(\w+)'", words)
        found = [
            run
            for run in self.runs
            if run.info.experiment_id in experiments
            and (status is None or run.info.status == status[1])
            and all(run.data.tags.get(n) in ([v] if v else run.data.tags.values()) for n, v in tags)
        ]
        return Page(sorted(found, key=lambda run: run.info.start or 0, reverse=True))

    def list_artifacts(self, run_id: str, path: str | None) -> list[Any]:
        folder = self.root / run_id
        entries = sorted((folder / (path or "")).iterdir())
        return [
            SimpleNamespace(path=str(e.relative_to(folder)), is_dir=e.is_dir(), file_size=9)
            for e in entries
        ]

    def download_artifacts(self, run_id: str, path: str, into: str) -> str:
        return shutil.copy(self.root / run_id / path, into)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    module = ModuleType("mlflow.entities")
    module.Metric = lambda name, value, at, step: (name, value, at, step)  # type: ignore[attr-defined]
    module.Param = module.RunTag = lambda name, value: (name, value)  # type: ignore[attr-defined]
    package = ModuleType("mlflow")
    package.__spec__ = ModuleSpec("mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.entities", module)
    client = FakeClient(tmp_path / "server")
    tracking = SimpleNamespace(MlflowClient=lambda tracking_uri: client)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    return client
