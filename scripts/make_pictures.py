"""Take the README's pictures of a report, light and dark, with headless Chromium.

python -m scripts.make_pictures [--out docs/pictures] [--run results/latest]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.reports.writing import write_reports

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SCHEMES = {"light": "1", "dark": "0"}
"""Blink's numbers for the preferred colour scheme."""
_SIZE_PX = 920, 1110


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=PICTURES)
    parser.add_argument("--run", type=Path, default=ROOT / "results" / "latest")
    options = parser.parse_args(arguments)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("error: needs Chromium in PATH", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        shutil.copytree(options.run.resolve(), run)
        write_reports(run)
        for scheme in SCHEMES:
            take(chromium, run / "report.html", options.out / f"report-{scheme}.png", scheme)
    return 0


def take(chromium: str, page: Path, picture: Path, scheme: str) -> None:
    """Take a picture of a page in this preferred colour scheme."""
    width, height = _SIZE_PX
    subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            *(f"--screenshot={picture}", f"--window-size={width},{height}"),
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    print(picture)


if __name__ == "__main__":
    sys.exit(main())
