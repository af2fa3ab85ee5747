"""The answer of a tuning in words and files: the gain, its cost, what gives it, what to paste."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlperf_suite.features.tuning.claim import Contribution, TuningResult
from mlperf_suite.features.tuning.space import (
    Settings,
    run_arguments,
    serve_command,
    shell_line,
    space_text,
)
from mlperf_suite.features.tuning.target import trial_files
from mlperf_suite.features.tuning.trial_run import Measured
from mlperf_suite.features.tuning.tuning_page import choice_word, tuning_page
from mlperf_suite.features.tuning.tuning_request import Request
from mlperf_suite.results.run_folder import read_config, write_whole
from mlperf_suite.results.schema import Config

RESULT, WINNER, PAGE = "tuning.md", "winner.toml", "report.html"
_SPLIT = "tensor_parallel_size"


def write_answer(
    request: Request, trials: Sequence[Measured], claim: TuningResult, say: Callable[[str], None]
) -> None:
    """Write and say the answer: the text, the page, and a winner's settings as a file."""
    lines = [*answer_lines(request, claim), *_failures_note(trials)]
    if claim.is_better:
        write_whole(request.out / WINNER, space_text(claim.best))
    else:
        # That of an earlier answer, with less time.
        (request.out / WINNER).unlink(missing_ok=True)
    write_whole(request.out / RESULT, "\n\n".join(lines) + "\n")
    texts = [*commands_of(request, claim), (WINNER, space_text(claim.best))]
    page = tuning_page(request, trials, claim, texts if claim.is_better else ())
    write_whole(request.out / PAGE, page)
    for line in [*lines, f"page: {request.out / PAGE}"]:
        say(line)


def answer_lines(request: Request, claim: TuningResult) -> list[str]:
    """The answer in lines: the gain, what it costs, what gives it, the winner's commands."""
    if not claim.is_better:
        return [claim.words, *claim.failed]
    rows = [_contribution_line(row) for row in claim.contributions if row.measured]
    commands = (f"{name}: {text}" for name, text in commands_of(request, claim))
    return [claim.words, _cost_line(claim), *rows, *commands, *claim.failed]


def commands_of(request: Request, claim: TuningResult) -> list[tuple[str, str]]:
    """What to paste: the suite's command, unless it starts servers, and the server's."""
    best = claim.best
    if request.serve:
        return [("server", request.serve.line(best))]
    sessions = (
        shell_line(best, ["mlperf-suite", *own, *run_arguments(best), *request.options])
        for own in request.target.whole
    )
    server = serve_command({**best, **_split(request, claim)}, request.options)
    return [*(("command", session) for session in sessions), ("server", server)]


def _split(request: Request, claim: TuningResult) -> Settings:
    """The GPUs that the suite split the winner's model over: a server by itself takes one."""
    for pair in claim.pairs:
        for run in trial_files(request.out / "runs" / pair.best.folder):
            engine = Config.read(read_config(run.folder)).engine
            gpus = engine.settings.get(_SPLIT) if engine else None
            if isinstance(gpus, int) and gpus > 1:
                return {_SPLIT: gpus}
    return {}


def _failures_note(trials: Sequence[Measured]) -> list[str]:
    """That no setting ran but the default's: then nothing was compared."""
    others = [run.trial for run in trials if run.trial.settings != trials[0].trial.settings]
    if not others or any(trial.rate is not None for trial in others):
        return []
    return [f"all {len(others)} trials of other settings failed; the last: {others[-1].reason}"]


def _cost_line(claim: TuningResult) -> str:
    costs = [f"{row.name} {row.change.interval}" for row in claim.costs]
    if not any("energy" in row.name for row in claim.costs):
        costs.append("energy not measured (no counter)")
    return f"what it costs: {', '.join(costs)}"


def _contribution_line(row: Contribution) -> str:
    assert row.measured is not None
    how = "measured" if row.measured.pairs > 1 else "one run each"
    was = choice_word(row.name, None)
    return f"{row.name} = {row.choice} instead of {was}: {row.measured.interval} ({how})"
