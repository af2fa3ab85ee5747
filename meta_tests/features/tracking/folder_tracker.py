"""A tracker that keeps results in a folder, or does not, as the experiment's name says."""

import os
import shutil
import threading
from dataclasses import asdict
from pathlib import Path

from mlperf_suite.features.tracking.trackers import TrackedRun
from mlperf_suite.results.run_folder import write_json


class FolderTracker:
    def __init__(self, place: str, experiment: str) -> None:
        self.place, self.experiment = Path(place), experiment
        if experiment == "away":
            raise OSError("attempt 3") from ConnectionRefusedError()

    def keep(self, run: TrackedRun, files: Path) -> str:
        if self.experiment == "forbidden":
            raise PermissionError(
                f"nobody may write, said\nthe tracker: {os.environ['OF_A_TOKEN']}"
            )
        if self.experiment == "hangs":
            threading.Event().wait()
        if self.experiment == "dies":
            os._exit(9)
        print("what a library says", flush=True)
        folder = self.place / run.checksum
        if not folder.exists():
            shutil.copytree(files, folder / "files")
            write_json(folder / "run.json", asdict(run))
        return str(folder)


TRACKER = FolderTracker
