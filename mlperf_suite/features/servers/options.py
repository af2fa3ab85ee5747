"""The options of servers that run already, and the key and headers that they are sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.engines.routing import ENDPOINT_ROUTINGS
from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers.config import SERVER_KINDS, SILENCE_S, parse_endpoint
from mlperf_suite.option_specs import (
    COUNT_OR_AUTO,
    HEADER_NAME,
    EngineChoice,
    OptionSpec,
    Values,
    checked,
    choice,
    choice_or_auto,
    folder,
)

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

_KEY_VARIABLE = "API_KEY"
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade"),
        *("expect", "content-type", "content-encoding", "accept-encoding"),
    }
)
"""Headers that frame a message; the client sets them itself."""


def _header(text: str) -> tuple[str, str]:
    """The name and value in NAME=VALUE, for an HTTP header."""
    name, _, value = text.partition("=")
    name, value = name.strip(" "), value.strip(" ")
    usable = HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)
    if not usable or name.lower() in _OWN_HEADERS:
        raise ValueError(text)
    return name, value


def _note(text: str) -> tuple[str, str]:
    """The name and value in KEY=VALUE."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value and text.isprintable()):
        raise ValueError(text)
    return name, value


def _refusal(value: Mapping[str, Any]) -> str:
    return (
        "an option of vLLM in this process cannot be used with an endpoint "
        f"({value['endpoints'][0].url}): set it where the server is started"
    )


_ENDPOINT = EngineChoice("endpoint", "--endpoint URL", SILENCE_S, _refusal)
_of_endpoint = partial(OptionSpec, engine=_ENDPOINT.kind, section="Servers")

OPTIONS = {
    "endpoints": _of_endpoint(
        "measure the server at this URL instead of an engine in this process; repeat it to measure "
        "several servers as one system",
        Values(parse_endpoint, "must be a URL like http://host:8000"),
        name="endpoint",
        identifies="place",
        variable="ENDPOINT",
        repeatable=True,
        chooses=_ENDPOINT,
    ),
    "endpoint_server": _of_endpoint(
        "the kind of server; auto detects it, text is any server that accepts and returns only "
        "text",
        choice_or_auto(*SERVER_KINDS),
        "auto",
        identifies="system",
        reported_as="server",
    ),
    "endpoint_routing": _of_endpoint(
        "how requests are distributed over several servers: to the one with the fewest "
        "outstanding tokens, or to each in turn",
        choice(*ENDPOINT_ROUTINGS),
        "fewest-tokens",
        identifies="system",
        reported_as="routing",
    ),
    "endpoint_ca": _of_endpoint(
        "PEM file of the certificate authorities that verify the servers' certificates; by "
        "default the system's",
        checked(folder, Path.is_file, "must be an existing file"),
        identifies=None,
    ),
    "endpoint_clients": _of_endpoint(
        "number of client processes; auto chooses by the number of cores",
        COUNT_OR_AUTO,
        "auto",
        identifies=None,
    ),
    "endpoint_requests": _of_endpoint(
        "maximum number of concurrent requests per server; the rest wait in the client, which "
        "client_bound judges; auto is 2,048 (256 for text), or twice the batch limit that the "
        "server reports if that is more",
        COUNT_OR_AUTO,
        "auto",
        identifies="system",
        reported_as="requests_at_once",
    ),
    "served_model_name": _of_endpoint(
        "the model's name on the servers; by default read from the servers",
        checked(str, str.strip, "must be a name"),
        identifies="system",
        reported_as="served_model",
    ),
    "server_notes": _of_endpoint(
        "a setting of the servers that they do not report, as KEY=VALUE, for reports and "
        "comparisons; may be repeated",
        Values(_note, "must be KEY=VALUE"),
        name="server-note",
        identifies=None,
        repeatable=True,
    ),
    "endpoint_headers": _of_endpoint(
        "header sent with every request, as NAME=VALUE; may be repeated; values are never "
        "recorded, and are best kept as a table in the --suite-config file",
        Values(
            _header,
            "must be NAME=VALUE in ASCII without control characters, and not a header that the "
            "client sets itself (such as Host)",
        ),
        name="endpoint-header",
        identifies=None,
        repeatable=True,
        secret=True,
    ),
}


def completed(value: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The servers, the headers by name and the key for them, `api_key`. Raises UsageError."""
    urls = [target.url for target in value["endpoints"] or ()]
    if twice := [url for url in urls if urls.count(url) > 1]:
        raise UsageError(f"--endpoint {twice[0]}: given twice")
    return {
        "endpoints": list(value["endpoints"] or ()),
        "server_notes": dict(value["server_notes"] or ()),
        "endpoint_headers": _headers(value["endpoint_headers"] or (), environment),
        "api_key": _api_key(environment) if urls else None,
    }


def recorded(settings: Settings) -> dict[str, object]:
    """What config.json says of them in other words than their values."""
    value = settings.feature_options
    if not value["endpoints"]:
        return {}
    return {
        "endpoints": [target.url for target in value["endpoints"]],
        "endpoint_ca": value["endpoint_ca"] and str(value["endpoint_ca"]),
        "endpoint_headers": sorted(value["endpoint_headers"]),
        "api_key": "set" if value["api_key"] else "not set",
    }


def _headers(pairs: Iterable[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, str]:
    """The headers by name. Raises UsageError for one that would be sent twice."""
    headers: dict[str, str] = {}
    names = {"authorization"} if environment.get(_KEY_VARIABLE) else set()
    for name, value in pairs:
        if name.lower() in names:
            reason = f"{_KEY_VARIABLE} is set" if name.lower() == "authorization" else "given twice"
            raise UsageError(f"--endpoint-header {name}: {reason}")
        names.add(name.lower())
        headers[name] = value
    return headers


def _api_key(environment: Mapping[str, str]) -> str | None:
    key = environment.get(_KEY_VARIABLE) or None
    if key is not None and (" " in key or not _HEADER_VALUE.fullmatch(key)):
        raise UsageError(f"{_KEY_VARIABLE}: must be visible ASCII characters")
    return key
