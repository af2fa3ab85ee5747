"""The comment of a pull request's job, on a stand-in for GitHub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from ci.gate import Job, comment


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job.of({"MLPERF_OUT": str(tmp_path / "out"), "MLPERF_BASELINES": str(tmp_path)})


class _GitHub(BaseHTTPRequestHandler):
    comments: ClassVar[list[dict[str, Any]]] = []
    requests: ClassVar[list[str]] = []
    status = 200

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        self.requests.append(f"{self.command} {self.path}")
        assert self.headers["Authorization"] == "Bearer of-the-job"
        if self.command == "POST":
            self.comments.append({"id": 11 + len(self.comments), **body})
        requests = {key: int(line) for key, (line,) in parse_qs(urlsplit(self.path).query).items()}
        first = (requests.get("page", 1) - 1) * requests.get("per_page", 30)
        page = self.comments[first : first + requests.get("per_page", 30)]
        answer = json.dumps(page if self.command == "GET" else body).encode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the base class's names

    def log_message(self, *arguments: object) -> None:
        """Nothing to say."""


@pytest.fixture
def github(tmp_path: Path) -> Iterator[dict[str, str]]:
    _GitHub.comments, _GitHub.requests, _GitHub.status = [{"id": 3, "body": "looks good"}], [], 200
    server = HTTPServer(("127.0.0.1", 0), _GitHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
        "GITHUB_REPOSITORY": "one/fork",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "MLPERF_PULL_REQUEST": "5",
        "GH_TOKEN": "of-the-job",
    }
    server.shutdown()
    server.server_close()


def test_a_pull_request_has_one_comment_that_is_edited(job: Job, github: dict[str, str]) -> None:
    job.out.mkdir()
    for text in ("first table", "second table"):
        (job.out / "table.md").write_text(text)
        assert comment(job, github) == 0
    assert _GitHub.requests == [
        "GET /repos/one/fork/issues/5/comments?per_page=100&page=1",
        "POST /repos/one/fork/issues/5/comments",
        "GET /repos/one/fork/issues/5/comments?per_page=100&page=1",
        "PATCH /repos/one/fork/issues/comments/12",
    ]
    assert Path(github["GITHUB_STEP_SUMMARY"]).read_text() == "first tablesecond table"


def test_its_comment_is_found_among_many(job: Job, github: dict[str, str]) -> None:
    job.out.mkdir()
    (job.out / "table.md").write_text("table")
    _GitHub.comments.extend({"id": 1000 + n, "body": "a talk"} for n in range(230))
    for _ in range(2):
        assert comment(job, github) == 0
    assert [line.partition(" ")[0] for line in _GitHub.requests].count("POST") == 1
    assert _GitHub.requests[-1] == "PATCH /repos/one/fork/issues/comments/242"


def test_each_job_has_a_comment_of_its_own(job: Job, github: dict[str, str]) -> None:
    for name in ("gpu-0", "gpu-1", "gpu-0"):
        assert comment(job, github | {"MLPERF_NAME": name}) == 0
    assert [line["body"].splitlines()[0] for line in _GitHub.comments[1:]] == [
        "<!-- mlperf-suite gpu-0 -->",
        "<!-- mlperf-suite gpu-1 -->",
    ]
    assert _GitHub.requests[-1].startswith("PATCH")


def test_a_push_has_a_summary_alone(job: Job, github: dict[str, str]) -> None:
    assert comment(job, github | {"MLPERF_PULL_REQUEST": ""}) == 0
    assert _GitHub.requests == []
    assert "No result" in Path(github["GITHUB_STEP_SUMMARY"]).read_text()


def test_a_comment_that_cannot_be_written_fails_nothing(
    job: Job, github: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _GitHub.status = 403
    assert comment(job, github) == 0
    output = capsys.readouterr().out
    assert output.startswith("::warning title=MLPerf suite::the comment was not written: ")
    assert github["GH_TOKEN"] not in output
