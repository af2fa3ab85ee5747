"""Reads the files beside logs; no content makes it raise."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf_suite import strict_json
from mlperf_suite.scorers.scorer import Scorer
from mlperf_suite.strict_json import JsonFile
from mlperf_suite.untrusted_files import AnyPath, read_regular


def read_bytes(path: AnyPath) -> bytes | None:
    try:
        return read_regular(path)
    # ValueError: not a valid file name, since the name may itself come from a file.
    except (OSError, ValueError):
        return None


def read_text(path: AnyPath) -> str | None:
    raw = read_bytes(path)
    return None if raw is None else raw.decode("utf-8", errors="replace")


def read_json(path: Path) -> JsonFile:
    raw = read_bytes(path)
    if raw is None:
        return JsonFile({}, f"no {path.name}")
    try:
        content = strict_json.loads(raw.decode("utf-8"))
        # A lone surrogate, which an escape can name, ends the checker where it writes.
        if b"\\" in raw:
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except strict_json.RepeatedMemberError as error:
        return JsonFile({}, f"{path.name} has {error}")
    except ValueError:
        return JsonFile({}, f"{path.name} is not JSON in UTF-8")
    if not isinstance(content, dict):
        return JsonFile({}, f"{path.name} is not an object")
    return JsonFile(content)


def read_not_judged(folder: Path, scorer: Scorer) -> dict[str, str]:
    """The figures of an accuracy run that the suite could not judge, and why; see `scorer_json`."""
    reasons = read_json(folder / f"{scorer.name}.json").content.get("not_judged")
    return {str(n): str(why) for n, why in reasons.items()} if isinstance(reasons, dict) else {}


def read_scores(folder: Path, scorer: Scorer) -> dict[str, float]:
    """The figures that the suite wrote beside an accuracy run's logs, by name; may be empty."""
    content = read_json(folder / f"{scorer.name}.json").content
    # Only percentages are stored under their bare names.
    values = {name.removeprefix("run_"): value for name, value in content.items()}
    return {n: float(v) for n, v in values.items() if type(v) in (int, float) and abs(v) < 1e15}
