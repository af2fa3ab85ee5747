"""The programs that commands start, read by the suite and by the official inline scorer.

    python -m evidence.chats.bash_programs agentic_coding_2.5h.jsonl [PYTHON]

PYTHON is that of the official client's environment (.endpoints-client/bin/python). Compared are all
recorded answers of the file, and commands made of parts that shells and regular expressions find
hard. Exit status 1 if any differs.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.bash_calls import programs_of

MADE, SEED = 5_000, 20_261
_PARTS = (
    *("python", "python3.11", "/usr/bin/Python2", "./run.py", "pip3", "rg", "ls", "xargs", "."),
    *("A=1", "_b2=", "=c", "env", "sudo", "time", "command", "cd /tmp", "wget", "apt-get"),
    *("|", "||", "&&", "&", ";", "\n", " ", "\t", "'", '"', "`", "\\", '\\"', "$(ls)", "\u00e9"),
    *("sphinx-build", "grep -n", "'a | cat'", '"x; ls"', "3.1.4", "awk.1", ">", "cat <<EOF\n"),
)
_OFFICIAL = """
import json, sys
from inference_endpoint.evaluation.scoring import AgenticInferenceInlineScorer as Scorer
scorer = object.__new__(Scorer)
turns = json.load(sys.stdin)
json.dump([scorer._bash_actions(turn) for turn in turns], sys.stdout)
"""


def made_turns() -> list[dict[str, Any]]:
    """Answers with one or two calls, most of them of `bash`, some with broken arguments."""
    drawn = random.Random(SEED)

    def call() -> dict[str, Any]:
        command = " ".join(drawn.choices(_PARTS, k=drawn.randint(0, 9)))
        field = drawn.choice(("command", "command", "cmd", "other"))
        arguments: Any = json.dumps({field: command})
        arguments = drawn.choice((arguments, arguments, {field: command}, arguments[:-1], "[]"))
        name = drawn.choice(("bash", "bash", "bash", "python"))
        return {"function": {"name": name, "arguments": arguments}}

    return [{"tool_calls": [call() for _ in range(drawn.randint(1, 2))]} for _ in range(MADE)]


def recorded_turns(path: Path) -> list[dict[str, Any]]:
    return [turn.answer for session in read_sessions(path) for turn in session.turns]


def official_programs(python: str, turns: list[dict[str, Any]]) -> list[list[str]]:
    """What the official scorer reads in each answer."""
    run = subprocess.run(
        [python, "-c", _OFFICIAL],
        input=json.dumps(turns),
        capture_output=True,
        text=True,
        check=True,
    )
    programs: list[list[str]] = json.loads(run.stdout)
    return programs


def main() -> int:
    path = Path(sys.argv[1])
    python = sys.argv[2] if sys.argv[2:] else ".endpoints-client/bin/python"
    differences = 0
    for name, turns in (("recorded", recorded_turns(path)), ("made", made_turns())):
        ours = [programs_of(turn.get("tool_calls")) for turn in turns]
        official = official_programs(python, turns)
        differing = [turn for turn, a, b in zip(turns, ours, official, strict=True) if a != b]
        with_programs = sum(map(bool, official))
        print(f"{name}: {len(turns)} answers, {with_programs} with programs that count, ", end="")
        print(f"{len(differing)} read differently")
        for turn in differing[:3]:
            print(f"  {turn!r:.200}")
        differences += len(differing)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
