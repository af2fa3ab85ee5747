"""The options of servers: their URLs, and the secrets that they are sent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers.config import Target
from mlperf_suite.plugin.terminal_report import header_lines
from mlperf_suite.results.comparability import differences, identity_of
from mlperf_suite.results.schema import Config
from mlperf_suite.settings import Settings, resolve_settings

URL = "http://host:8000"
TARGET = Target(URL, False, "host", 8000, "")


def resolve(
    environment: Mapping[str, str] | None = None, config_file: Path | None = None, **options: Any
) -> Settings:
    return resolve_settings(options, environment or {}, str(config_file) if config_file else None)


def refusal(**arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(**arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_an_endpoint_takes_the_place_of_an_engine_in_this_process() -> None:
    assert resolve().engine_kind == "vllm"
    settings = resolve(endpoint=[URL, "https://other/prefix"])
    assert settings.engine_kind == "endpoint"
    assert [t.url for t in settings.feature_options["endpoints"]] == [URL, "https://other/prefix"]
    assert resolve({"ENDPOINT": URL}).feature_options["endpoints"] == [TARGET]
    assert (resolve().engine_silence, settings.engine_silence) == (1800.0, 22.0)
    assert resolve(endpoint=[URL], engine_silence="60").engine_silence == 60.0


def test_an_endpoint_that_was_given_twice_or_has_no_host_is_refused() -> None:
    assert refusal(endpoint=[URL, f"{URL}/v1"]) == f"--endpoint {URL}: given twice"
    assert "must be a URL like" in refusal(endpoint=["http://ho(st:8000"])


@pytest.mark.parametrize(
    "url",
    [
        *("http://me:hunter2@host", "http://me:hunter2@host:port", "me:hunter2@host:8000"),
        *("http://me:hun/ter2@host", "http:/me:hunter2@host", "https://h/v1?key=hunter2"),
        "http://h#hunter2",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    message = refusal(endpoint=[url])
    assert "ter2" not in message
    if ":hunter2@" in url and "//" in url:
        assert message == "--endpoint: no user or password in the URL: set API_KEY"


def test_the_key_is_never_shown() -> None:
    settings = resolve({"API_KEY": "sk-secret"}, endpoint=[URL])
    assert settings.feature_options["api_key"] == "sk-secret"
    assert "sk-secret" not in repr(settings)
    assert "sk-secret" not in json.dumps(settings.as_json())
    assert settings.as_json()["api_key"] == "set"
    for empty in ({}, {"API_KEY": ""}):
        assert resolve(empty, endpoint=[URL]).as_json()["api_key"] == "not set"
    # Somebody else's then.
    assert resolve({"API_KEY": "sk-secret\n"}).feature_options["api_key"] is None


@pytest.mark.parametrize("key", ["sk\r\nX: 1", "sk secret", "schlüssel", "sk\x7f", "\t"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(key: str) -> None:
    message = refusal(environment={"API_KEY": key}, endpoint=[URL])
    assert message == "API_KEY: must be visible ASCII characters"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("X-Team=blue\r\nX-Other: 1", " X-Team"), ("X-Team=blå", " X-Team")),
        *(("X-Team=", " X-Team"), ("X-Team: blue", ""), ("=blue", ""), ("X-Team\r\n=blue", "")),
        *(("content-length=4", " content-length"), ("CONNECTION=close", " CONNECTION")),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(text: str, name: str) -> None:
    message = refusal(endpoint=[URL], endpoint_header=[text])
    assert message.startswith(f"--endpoint-header{name}: must be NAME=VALUE")
    assert "blue" not in message


def test_headers_are_kept_by_name_and_only_their_names_are_written(tmp_path: Path) -> None:
    headers = ["X-Team=a=b c", "Authorization=Basic c2VjcmV0"]
    settings = resolve(endpoint=[URL], endpoint_header=headers)
    assert settings.feature_options["endpoint_headers"] == {
        "X-Team": "a=b c",
        "Authorization": "Basic c2VjcmV0",
    }
    assert "c2VjcmV0" not in repr(settings) + json.dumps(settings.as_json())
    file = tmp_path / "suite.toml"
    file.write_text(f"endpoint = ['{URL}']\n[endpoint-header]\nX-Team = 5\nX-Flag = true")
    assert resolve(config_file=file).feature_options["endpoint_headers"] == {
        "X-Team": "5",
        "X-Flag": "true",
    }
    file.write_text(f"endpoint = '{URL}'\n[endpoint-header]\nX-Team = ['hunter2']")
    message = refusal(config_file=file)
    assert message.startswith("--suite-config: endpoint_header X-Team: must be NAME=VALUE")
    assert "hunter2" not in message


def test_a_header_is_sent_once() -> None:
    two = ["X-Team=a", "x-team=b"]
    assert refusal(endpoint=[URL], endpoint_header=two) == "--endpoint-header x-team: given twice"
    message = refusal(
        environment={"API_KEY": "sk-secret"},
        endpoint=[URL],
        endpoint_header=["authorization=Bearer x"],
    )
    assert message == "--endpoint-header authorization: API_KEY is set"


def test_the_first_lines_of_a_session_say_where_the_server_is() -> None:
    assert URL in header_lines(resolve(endpoint=[URL]))[1]


def test_another_url_is_another_place_alone() -> None:
    settings = (resolve(endpoint=[url]).as_json() for url in (URL, "http://b:1"))
    one, other = (identity_of(Config(settings=values)) for values in settings)
    elsewhere = differences(one, other, ["surroundings"])
    assert elsewhere and elsewhere == differences(one, other)
