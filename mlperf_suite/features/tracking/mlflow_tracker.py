"""MLflow as a tracker: a result is a run of an experiment, its parts are nested runs.

A run is found again by the tag mlperf.checksum. An upload that was cut off goes on: a run is
finished last, once all of it is there, and MLflow keeps the same figure of the same moment once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.tracking.trackers import LAST_GOOD, NODES, PINNED, PINNED_TAG, TrackedRun

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""Where the user has set nothing else: to wait long is worse than to send later."""
_CHECKSUM, _PART, _PARENT = "mlperf.checksum", "mlperf.part", "mlflow.parentRunId"
_GOOD, _SYSTEM, _KIND = "mlperf.good", "mlperf.system", "mlperf.kind"
_NODE = ("mlperf.node", "mlperf.machine")
_A_BATCH = 100
"""The most params or tags that MLflow takes at once (mlflow.utils.validation)."""
_ENDED = ("FINISHED", "FAILED")
_CHOSEN = {
    LAST_GOOD: (f"tags.`{_GOOD}` = 'true' AND attributes.status = 'FINISHED'", (_KIND,)),
    PINNED: (f"tags.`{PINNED_TAG}` LIKE '%' AND attributes.status = 'FINISHED'", (_KIND,)),
    NODES: (f"tags.`{_SYSTEM}` LIKE '%' AND attributes.status != 'RUNNING'", (*_NODE, _KIND)),
}
"""By the words for them, which runs are asked for, and the tags of which each has its newest. Logs
of others and searches for settings have no system."""
_UNFIT = re.compile(r"[^\w.-]", re.ASCII)
"""What a folder's name has not."""
_NOT_READ = (".png", ".html", ".log", ".md")
"""Of the files of a baseline: those that the gate does not read, as LoadGen's own."""
_MAX_READ_BYTES = 2**26


class MlflowTracker:
    """Keeps results on an MLflow server. `client`: an MlflowClient, by default of `place`."""

    def __init__(self, place: str, experiment: str, client: Any = None) -> None:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        if client is None:
            from mlflow.tracking import MlflowClient

            client = MlflowClient(tracking_uri=place or None)
        self._client = client
        self._name = experiment

    def _experiment(self) -> str | None:
        found = self._client.get_experiment_by_name(self._name)
        return None if found is None else str(found.experiment_id)

    # Results

    def keep(self, run: TrackedRun, files: Path) -> str:
        experiment = self._experiment() or self._client.create_experiment(self._name)
        kept = self._found(experiment, _CHECKSUM, run.checksum)
        if kept is None or kept.info.status not in _ENDED:
            run_id = self._log(experiment, run, kept, {})
            parts = self._parts(experiment, run_id)
            for part in run.parts:
                at = TrackedRun(part.name, started_ms=run.started_ms, ended_ms=run.ended_ms)
                part_id = self._log(experiment, part, parts.get(part.name), {_PARENT: run_id}, at)
                self._client.set_terminated(part_id, run.status, run.ended_ms or None)
            self._client.log_artifacts(run_id, str(files))
            self._client.set_terminated(run_id, run.status, run.ended_ms or None)
        else:
            run_id = kept.info.run_id
            if pin := run.tags.get(PINNED_TAG):
                self._client.set_tag(run_id, PINNED_TAG, pin)
        return self._page(experiment, run_id)

    def _found(self, experiment: str, tag: str, value: str) -> Any:
        runs = self._client.search_runs([experiment], f"tags.`{tag}` = '{value}'", max_results=1)
        return runs[0] if runs else None

    def _parts(self, experiment: str, run_id: str) -> dict[str, Any]:
        """The nested runs that an upload has made before it was cut off, by name."""
        runs = self._client.search_runs([experiment], f"tags.`{_PARENT}` = '{run_id}'")
        return {run.info.run_name: run for run in runs}

    def _log(
        self,
        experiment: str,
        run: TrackedRun,
        kept: Any,
        tags: Mapping[str, str],
        times: TrackedRun | None = None,
    ) -> str:
        """Log params, figures and tags to a run, made now if there is none; its id. `times`: the
        run whose times it has, by default itself."""
        from mlflow.entities import Metric, Param, RunTag

        at = times or run
        tags = {**run.tags, **tags}
        found = {name: tags[name] for name in (_CHECKSUM, _PARENT) if name in tags}
        if kept is None:
            kept = self._client.create_run(
                experiment, at.started_ms or None, tags=found, run_name=run.name
            )
        run_id: str = kept.info.run_id
        metrics = [Metric(name, value, at.ended_ms, 0) for name, value in run.metrics.items()]
        for name, values in run.series.items():
            metrics += [Metric(name, value, at.ended_ms, n) for n, value in enumerate(values)]
        batches = {
            "params": [Param(*item) for item in run.params.items()],
            "metrics": metrics,
            "tags": [RunTag(*item) for item in tags.items()],
        }
        for what, entries in batches.items():
            for start in range(0, len(entries), _A_BATCH):
                self._client.log_batch(run_id, **{what: entries[start : start + _A_BATCH]})
        return run_id

    def _page(self, experiment: str, run_id: str) -> str:
        """The address of a run's page, without a user or a password; else the run's id."""
        url = urlsplit(str(getattr(self._client, "tracking_uri", "")))
        if url.scheme not in ("http", "https") or url.hostname is None:
            return f"run {run_id} of the experiment {self._name}"
        host = url.hostname if url.port is None else f"{url.hostname}:{url.port}"
        return f"{url.scheme}://{host}{url.path}/#/experiments/{experiment}/runs/{run_id}"

    # Baselines

    def fetch(self, which: str, system: str | None, into: Path) -> Sequence[Path]:
        experiment = self._experiment()
        chosen = [] if experiment is None else self._chosen(experiment, which, system)
        return [self._download(run, into) for run in chosen]

    def _chosen(self, experiment: str, which: str, system: str | None) -> list[Any]:
        if which not in _CHOSEN:
            run = self._client.get_run(which)
            if str(run.info.experiment_id) != experiment:
                raise SuiteError(f"the run {which} is of another experiment")
            return [run]
        words, told_apart_by = _CHOSEN[which]
        words += f" AND tags.`{_SYSTEM}` = '{system}'" if system else ""
        newest: dict[tuple[str, ...], Any] = {}
        for run in self._search(experiment, words):
            newest.setdefault(tuple(run.data.tags.get(tag, "") for tag in told_apart_by), run)
        return [newest[key] for key in sorted(newest)] if which == NODES else [*newest.values()]

    def _search(self, experiment: str, words: str) -> Iterator[Any]:
        """The runs, newest first."""
        token = None
        while True:
            page = self._client.search_runs(
                [experiment], words, order_by=["attributes.start_time DESC"], page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def _download(self, run: Any, into: Path) -> Path:
        """The files of a run that the gate reads, each once, in ID/NAME."""
        run_id = run.info.run_id
        name = _UNFIT.sub("_", str(run.info.run_name or "")).strip(".") or "run"
        folder = into / PurePosixPath(run_id).name / name
        for file in self._files(run_id, ""):
            place = PurePosixPath(file.path)
            if place.is_absolute() or ".." in place.parts:
                raise SuiteError(f"the run {run_id} has a file outside of it: {file.path}")
            if not (folder / place).is_file():
                self._read(run_id, file.path, folder / place)
        return folder

    def _read(self, run_id: str, path: str, file: Path) -> None:
        """Download a file; one that is there is whole. Stores differ in the folders that they make
        below the one that is named."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=file.parent) as room:
            Path(self._client.download_artifacts(run_id, path, room)).replace(file)

    def _files(self, run_id: str, path: str) -> Iterator[Any]:
        for file in self._client.list_artifacts(run_id, path or None):
            if file.is_dir:
                yield from self._files(run_id, file.path)
            elif _is_read(PurePosixPath(file.path), file.file_size):
                yield file


def _is_read(path: PurePosixPath, size: int | None) -> bool:
    of_loadgen = "mlperf_log_" in path.name or path.suffix in _NOT_READ
    return not of_loadgen and (size or 0) <= _MAX_READ_BYTES


TRACKER = MlflowTracker
