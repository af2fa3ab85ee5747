"""python -m perf.energy: the cost of the thread that reads energy counters, on simulated ones.

RAPL's counters are real files in a folder, GPUs are functions that return a number at once. A
driver's own response time comes on top; each run's summary.json has the total
(run.energy.reader_busy_share).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from mlperf_suite.energy import INTERVAL_S, NVML_LABEL, Counter, MeterReader, cpu_counters


def zones(root: Path, packages: int) -> None:
    """Write RAPL's files for this many packages, each with its memory."""
    for number in range(packages):
        for name, label in (
            (f"intel-rapl:{number}", f"package-{number}"),
            (f"intel-rapl:{number}:0", "dram"),
        ):
            (root / name).mkdir()
            (root / name / "name").write_text(f"{label}\n")
            (root / name / "energy_uj").write_text("123456789\n")
            (root / name / "max_energy_range_uj").write_text("262143328850\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--packages", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        zones(Path(folder), options.packages)
        gpus = [
            Counter(f"GPU {index}", "GPU", NVML_LABEL, time.monotonic)
            for index in range(options.gpus)
        ]
        counters = [*gpus, *cpu_counters(Path(folder)).counters]
        recorder = MeterReader(counters)
        began = time.monotonic()
        recorder.start()
        time.sleep(options.seconds)
        recording = recorder.stop()
        elapsed_s = time.monotonic() - began
    readings = sum(len(series.values) for series in recording.series)
    print(
        f"{len(counters)} counters every {INTERVAL_S:g} s for {elapsed_s:.1f} s: "
        f"{readings:,} readings, {recording.busy_s / readings * 1e6:.1f} us each, "
        f"{recording.busy_s / elapsed_s:.4%} of a core"
    )


if __name__ == "__main__":
    main()
