"""Take the README's pictures: a real run in a real terminal, and its report, light and dark.

Runs `pytest -m "offline and datacenter"` in a tmux window of 80 columns and captures its text with
colours; headless Chromium takes the pictures. Needs tmux, Chromium and some minutes. With
`--run FOLDER` it shows an earlier run: its closing table, and its report written again.

    python -m scripts.make_pictures [--out docs/pictures] [--run FOLDER]
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.color import Color
from rich.console import Console
from rich.text import Text

from mlperf_suite.reports.terminal import closing_table
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import Summary

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 80, 60
_TOP, _BOTTOM = 50, 3
"""The lines of the closing table that fit beside the report: the first and the last."""
SCHEMES = {"light": "1", "dark": "0"}
"""Blink's numbers for the preferred colour scheme."""
_PALETTES = {
    # The text colour and, by ANSI number, GitHub's own colours in each scheme.
    "light": {
        None: "#1f2328",
        1: "#cf222e",
        2: "#1a7f37",
        3: "#9a6700",
        4: "#0969da",
        6: "#1b7c83",
    },
    "dark": {None: "#e6edf3", 1: "#ff7b72", 2: "#3fb950", 3: "#d29922", 4: "#58a6ff", 6: "#39c5cf"},
}
_PAPER = {"light": "#ffffff", "dark": "#0d1117"}
_TERMINAL_PX, _REPORT_PX = 720, 920
_LINE_PX, _FONT_PX, _MARGIN_PX = 19, 14, 20
_PATIENCE_S = 900.0
_CONSOLE = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=PICTURES)
    parser.add_argument("--run", type=Path, help="the folder of a run, instead of making one")
    parser.add_argument("--show", type=Path, help="only print the closing table of this run")
    options = parser.parse_args(arguments)
    if options.show:
        show(options.show)
        return 0
    out: Path = options.out
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or shutil.which("tmux") is None:
        print("error: needs tmux and Chromium in PATH", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        latest = folder / "results" / "latest"
        if options.run:
            shutil.copytree(options.run.resolve(), latest)
            write_reports(latest)
            command = f"{sys.executable} -m scripts.make_pictures --show {latest}"
            text = run_in_a_terminal(command, folder)
        else:
            marker = "-m 'offline and datacenter'"
            command = f"{sys.executable} -m pytest {marker} --results-dir {latest.parent}"
            text = run_in_a_terminal(command, folder)
        text = screen(text, str(latest.parent))
        report = (latest / "report.html").resolve()
        for scheme in SCHEMES:
            page = folder / f"terminal-{scheme}.html"
            page.write_text(terminal_page(text, scheme), encoding="utf-8")
            height = _LINE_PX * len(text.splitlines()) + 2 * _MARGIN_PX
            take(chromium, page, out / f"terminal-{scheme}.png", (_TERMINAL_PX, height), scheme)
            # As high as the terminal's picture, which it is shown beside at the same width.
            size = _REPORT_PX, height * _REPORT_PX // _TERMINAL_PX
            take(chromium, report, out / f"report-{scheme}.png", size, scheme)
    print("\n".join(str(path) for path in sorted(out.glob("*.png"))))
    return 0


def show(run: Path) -> None:
    """Print the closing table of a run like a session does."""
    summary = read_summary(run)
    if summary is None:
        raise FileNotFoundError(run / "summary.json")
    console = Console(width=COLUMNS, force_terminal=True, highlight=False)
    console.print(f" {summary.meta.title} ".center(COLUMNS, "="))
    console.print(closing_table(summary, run.parent / folder_of(summary)))


def folder_of(summary: Summary) -> str:
    """The name that the run's folder had."""
    start = datetime.fromisoformat(str(summary.meta.started))
    return f"{start:%Y%m%d-%H%M%S}-{summary.meta.benchmark}-{str(summary.meta.scenario).lower()}"


def run_in_a_terminal(command: str, folder: Path) -> str:
    """All output of a command in a terminal, with its ANSI colours.

    Raises RuntimeError if it fails. `folder`: for the terminal's own files.
    """
    marker = folder / "done"
    tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
    shell = f"{command}; echo $? > {marker}; sleep 600"
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    subprocess.run([*tmux, "new-session", "-d", *size, shell], cwd=ROOT, check=True)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not marker.exists() or not marker.read_text().strip():
            if time.monotonic() > until:
                raise RuntimeError(f"the run took more than {_PATIENCE_S:g} s")
            time.sleep(1)
        capture = [*tmux, "capture-pane", "-e", "-p", "-S", "-", "-J"]
        screen_text = subprocess.run(capture, capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    if marker.read_text().strip() != "0":
        raise RuntimeError(f"the run failed:\n{screen_text}")
    return screen_text


def screen(text: str, results: str) -> str:
    """The first and last lines of the closing table, with the results folder shown as `results`."""
    lines = [line.rstrip() for line in text.replace(results, "results").splitlines()]
    plain = [Text.from_ansi(line).plain for line in lines]
    first = next(i for i, line in enumerate(plain) if re.match(r"=+ llama3.1-8b Offline =+", line))
    last = next(i for i, line in enumerate(plain) if line.startswith("report: "))
    shown_lines = lines[first : last + 1]
    left_out = len(shown_lines) - _TOP - _BOTTOM
    if left_out > 1:
        shown_lines[_TOP:-_BOTTOM] = [f"[{left_out} more lines]"]
    return "\n".join(shown_lines)


def terminal_page(text: str, scheme: str) -> str:
    """An HTML page with the text as a terminal shows it."""
    body = "\n".join(_line(line, scheme) for line in AnsiDecoder().decode(text))
    return (
        f"<!doctype html><meta charset=utf-8><style>body{{margin:0;background:{_PAPER[scheme]};"
        f"color:{_PALETTES[scheme][None]}}}pre{{margin:{_MARGIN_PX}px;"
        f"font:{_FONT_PX}px/{_LINE_PX}px 'DejaVu Sans Mono',monospace}}</style><pre>{body}</pre>"
    )


def _line(text: Text, scheme: str) -> str:
    parts = []
    for number, character in enumerate(text.plain):
        style = text.get_style_at_offset(_CONSOLE, number)
        parts.append((_colour(style.color, scheme), bool(style.bold), character))
    out, before = [], None
    for colour, bold, character in parts:
        if (colour, bold) != before:
            out.append("</span>" if before else "")
            weight = ";font-weight:bold" if bold else ""
            out.append(f'<span style="color:{colour}{weight}">')
            before = (colour, bold)
        out.append(html.escape(character))
    return "".join(out) + ("</span>" if before else "")


def _colour(colour: Color | None, scheme: str) -> str:
    palette = _PALETTES[scheme]
    number = colour.number % 8 if colour is not None and colour.number is not None else None
    return palette.get(number, palette[None])


def take(chromium: str, page: Path, picture: Path, size: tuple[int, int], scheme: str) -> None:
    """Take a picture of a page in this preferred colour scheme."""
    subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            *(f"--screenshot={picture}", f"--window-size={size[0]},{size[1]}"),
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    sys.exit(main())
