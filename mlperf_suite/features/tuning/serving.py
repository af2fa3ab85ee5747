"""A trial on a server that a command template starts: started, awaited, measured and ended.

A fault of the server is this trial's failure and no other's: it is ended with every
process that it started, also with those that it would have left behind.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psutil

from mlperf_suite.engines.hang_detector import end_processes
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.space import (
    Settings,
    Trial,
    run_variables,
    serve_flags,
    shell_line,
)
from mlperf_suite.features.tuning.target import TuneTarget
from mlperf_suite.features.tuning.trial_run import (
    SERVER_OUTPUT,
    Command,
    EarlyEndCheck,
    MeasuredTrial,
    last_words,
    run_trial,
)

_START_S = 1800.0
"""The longest start: a large model is read from a disk."""
_STOP_S = 20.0
_CHILDREN_S = 5.0
"""How long the server's processes may outlive it."""
_POLL_S = 0.5
_ANSWER_S = 5.0
_FLAGS, _PORT = "{flags}", "{port}"
_OF_A_SHELL = re.compile(r"\|\|?|&&?|;|&?\d?[<>].*")
"""A word that only a shell takes for something else than an argument."""
_VARIABLE = re.compile(r"\w+=")


class ServerFailureError(Exception):
    """Why a server is no server, in a line."""


@dataclass(frozen=True, slots=True)
class ServerTemplate:
    """A command that starts a server, with `{flags}` for the settings and `{port}`."""

    text: str

    def check(self) -> None:
        """Raise UsageError for a template that cannot start a server for each trial."""
        missing = [word for word in (_FLAGS, _PORT) if word not in self.text]
        if missing:
            raise UsageError.for_option("--serve", self.text, f"needs {' and '.join(missing)}")
        try:
            words = shlex.split(self.text)
        except ValueError as error:
            raise UsageError.for_option("--serve", self.text, f"not a command: {error}") from error
        if shell := [word for word in words if _OF_A_SHELL.fullmatch(word)]:
            hint = f"no shell reads {shell[0]}: write sh -c '...', or a program instead"
            raise UsageError.for_option("--serve", self.text, hint)
        if _VARIABLE.match(words[0]):
            hint = f"no shell reads {words[0]}: write env {words[0]} ..."
            raise UsageError.for_option("--serve", self.text, hint)

    def command(self, settings: Settings, port: str = _PORT) -> list[str]:
        """The words of the command for these settings."""
        flags, words = serve_flags(settings), []
        for word in (word.replace(_PORT, port) for word in shlex.split(self.text)):
            # Within a longer word, they are part of a script for a shell.
            words += flags if word == _FLAGS else [word.replace(_FLAGS, shlex.join(flags))]
        return words

    def line(self, settings: Settings) -> str:
        """The same to paste into a shell, its variables before it and its port left open."""
        return shell_line(settings, self.command(settings, "PORT"))


def run_served(
    template: ServerTemplate,
    command: Command,
    target: TuneTarget,
    watch: EarlyEndCheck = lambda _: None,
) -> MeasuredTrial:
    """Start the server, measure it as `run_trial` does, and end it.

    A server that does not start, crashes, hangs or leaves processes is a failed trial. Raises what
    `run_trial` raises.
    """
    begin = time.monotonic()
    server = _Server(template, command)
    measured = MeasuredTrial(Trial(command.settings), command.folder.name)
    try:
        server.wait_until_ready()
        options = [*command.options, f"--endpoint={server.url}"]
        measured = run_trial(replace(command, options=options), target, watch, engine=False)
        failure = server.why_ended
    except ServerFailureError as error:
        failure = str(error)
    finally:
        left = server.end()
    if failure := failure or (left if measured.trial.rate is not None else ""):
        trial = Trial(command.settings, reason=failure)
        measured = replace(measured, trial=trial)
    return replace(measured, seconds=time.monotonic() - begin)


class _Server:
    """A server that was started; `why_ended` says so if it could not be."""

    def __init__(self, template: ServerTemplate, command: Command) -> None:
        self._command = command
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = command.folder / SERVER_OUTPUT
        words = template.command(command.settings, str(port))
        variables = {**command.variables, **run_variables(command.settings)}
        self._family: dict[int, psutil.Process] = {}
        self._process: subprocess.Popen[bytes] | None = None
        with self._log.open("wb") as output, contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                words,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Raises ServerFailureError if it ends or is not ready in time, KeyboardInterrupt if the
        tuning ends."""
        limit_s = min(_START_S, self._command.limit_s)
        until = time.monotonic() + limit_s
        while not self._answers():
            if why := self.why_ended:
                raise ServerFailureError(why)
            if self._command.stopped.wait(_POLL_S):
                raise KeyboardInterrupt
            if time.monotonic() > until:
                said = last_words(self._log)
                raise ServerFailureError(f"the server was not ready after {limit_s:.0f} s: {said}")

    def _answers(self) -> bool:
        key = os.environ.get("API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for path in ("/v1/models", "/health"):
            request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310
            with (
                # What answers need not speak HTTP.
                contextlib.suppress(OSError, ValueError, http.client.HTTPException),
                opener.open(request, timeout=_ANSWER_S),
            ):
                return True
        return False

    @property
    def why_ended(self) -> str:
        """Why the server is not there any more; empty while it is."""
        if self._process is None:
            return "the server's command cannot be started: see --serve"
        self._look_for_family()
        status = self._process.poll()
        if status is None:
            return ""
        return f"the server ended with status {status}: {last_words(self._log)}"

    def _look_for_family(self) -> None:
        """Remember every process that it has started so far: they outlive their parent."""
        assert self._process is not None
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                self._family[child.pid] = child
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == self._process.pid != process.pid:
                    self._family[process.pid] = process

    def end(self) -> str:
        """End the server and its processes; what it left to others to end, empty if nothing."""
        if self._process is None:
            return ""
        self._look_for_family()
        self._process.terminate()
        stuck = f"the server did not end within {_STOP_S:.0f} s"
        left = list(self._family.values())
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
                stuck = ""
            self._look_for_family()
            left = list(self._family.values())
            _, left = psutil.wait_procs(left, timeout=0 if stuck else _CHILDREN_S)
            names = _names(left)
        finally:
            # Also after another Ctrl-C in the meantime.
            self._process.kill()
            end_processes(left)
        self._process.wait()
        return stuck or (f"the server left processes behind: {names}" if left else "")


def _names(processes: Sequence[psutil.Process]) -> str:
    names = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            names.append(process.name())
    return ", ".join(sorted(names))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
