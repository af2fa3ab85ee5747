"""Tokens and keys never appear in what the suite writes or says, however a session ends."""

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite import secrets
from mlperf_suite.errors import SuiteError
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.settings import resolve_settings

TOKEN, KEY, ARGUMENT = "hf_plantedTOKEN0123456789", "sk-planted-KEY-98765", 'planted"ARG<&>55'
COMMAND = ("-m", "offline and accuracy and datacenter", "-p", "meta_tests.stand_in_plugin")


@pytest.fixture(autouse=True)
def _known_only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_secrets", set())


def leaks(run: SuiteRun, *paths: Path) -> list[str]:
    places = [run.results_dir, *paths]
    files = [f for p in places for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    assert files
    texts = {str(file): file.read_bytes() for file in files} | {"output": run.output.encode()}
    words = [word.encode() for word in (TOKEN, KEY, "planted&quot;ARG", 'planted\\"ARG', ARGUMENT)]
    return [name for name, text in texts.items() if any(word in text for word in words)]


def run_to(end: str, words: str, folder: Path, *options: str, **secrets_given: str) -> SuiteRun:
    """A session that ends well, or in an error of these words; its secrets are nowhere."""
    run = run_suite(
        folder / "results",
        *COMMAND,
        *options,
        f"--junitxml={folder}/junit.xml",
        f"--alluredir={folder}/allure",
        "--showlocals",
        STAND_IN=json.dumps({"log": words} if end == "good" else {end: words}),
        **secrets_given,
    )
    assert run.exit_code == (0 if end == "good" else 1), run.output
    assert leaks(run, folder / "junit.xml", folder / "allure") == []
    return run


@pytest.mark.parametrize("end", ["good", "load_error", "crash"])
def test_a_planted_secret_is_nowhere(tmp_path: Path, end: str) -> None:
    words = f"no access with {TOKEN} and {KEY} and {ARGUMENT}"
    option = f"--engine-arg=hf_token={ARGUMENT}"
    run = run_to(end, words, tmp_path, option, HF_TOKEN=TOKEN, OTHER_API_KEY=KEY)
    said = (run.folder / "engine.log").read_text() if end == "good" else run.output
    assert "no access with *** and *** and ***" in said


def test_a_header_that_names_the_model_is_no_secret() -> None:
    names = {"X-Model": "owner/name", "X-Served": "small-one", "X-Kind": "embedded"}
    names |= {"X-Key": "embedded2", "Proxy-Authorization": "Basic plantedB64=="}
    resolve_settings(
        {
            "endpoint": ["http://host"],
            "model": "owner/name",
            "served_model_name": "small-one",
            "endpoint_header": [f"{name}={value}" for name, value in names.items()],
        },
        {},
    )
    words = "owner/name small-one embedded performance"
    assert secrets.redact(f"{words} embedded2 plantedB64==") == f"{words} *** ***"


@pytest.mark.parametrize(
    ("argument", "secret", "arguments"),
    [
        ('hf_token="hf_zzzzzzzzzz"', "hf_zzzzzzzzzz", {}),
        ("my_token='äbc\"defghij'", 'äbc"defghij', {"my_token": "***"}),
        ('my_token=["abcdefghij", "x"]', "abcdefghij", {"my_token": ["***", "x"]}),
        ('config={api_key = "abcdefghij"}', "abcdefghij", {"config": {"api_key": "***"}}),
        ("password=123456789", "123456789", {"password": "***"}),
    ],
)
@pytest.mark.parametrize("in_file", [False, True])
def test_the_value_of_an_argument_is_secret_with_and_without_its_quotes(
    tmp_path: Path, argument: str, secret: str, arguments: dict[str, object], in_file: bool
) -> None:
    file = tmp_path / "suite.toml"
    file.write_text(f"engine_arg = [{json.dumps(argument)}]" if in_file else "")
    options = {} if in_file else {"engine_arg": [argument]}
    settings = resolve_settings(options, {"HF_TOKEN": TOKEN}, str(file))
    assert secrets.redact(f"401 for {secret}!") == "401 for ***!"
    assert secret not in secrets.redact(f"--engine-arg {argument}")
    write_json(tmp_path / "config.json", settings.as_json())
    text = (tmp_path / "config.json").read_text()
    assert secret not in text and TOKEN not in text
    assert json.loads(text)["engine_args"] == arguments
    assert TOKEN not in str(SuiteError(f"401 for {TOKEN}"))


@pytest.mark.parametrize("secret", ['"abcdefgh"', '", "label', "123456", '": "xy'])
def test_what_is_json_stays_json_whatever_the_secret(tmp_path: Path, secret: str) -> None:
    secrets.remember(secret)
    content = {"a": "abcdefgh", "label": 0.123456789, "b": [secret, 123456], '": "xy"': "a, b"}
    path = tmp_path / "config.json"
    write_json(path, content)
    assert json.loads(path.read_text())["b"][0] == "***"
    path.write_text(json.dumps(content, indent=2))
    secrets.redact_files([path])
    content = json.loads(path.read_text())
    assert content["b"][0] == "***" and content["label"] == 0.123456789


def test_what_others_wrote_is_swept(tmp_path: Path) -> None:
    # The environment may hold any bytes.
    values = {"HF_TOKEN": TOKEN, "MAX_TOKENS": "128128128", "X_TOKEN": "short"}
    secrets.remember_named(values | {"FOO_TOKEN": "abc\udcffdefg"})
    log, untouched = tmp_path / "engine.log", tmp_path / "other.log"
    log.write_bytes(b"\xff token=" + TOKEN.encode() + b" abc\xffdefg\n")
    untouched.write_text("128128128 short")
    assert secrets.redact_files([tmp_path]) == [log]
    assert log.read_bytes() == b"\xff token=*** ***\n"
    assert untouched.read_text() == "128128128 short"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_KEY", "sk-abc4efgh", "sk-abc4efgh"),
        ("GITHUB_PAT", "ghp_abc4efgh", "ghp_abc4efgh"),
        ("DB_PASS", "abc/def gh+", "abc/def gh+"),
        ("https_proxy", "http://me:abcd%2Fefgh@proxy:3128", "abcd/efgh"),
        ("DATABASE_URL", "postgres://me:abcdefgh@db/x, redis://:ijklmnop@db", "ijklmnop"),
        ("PIP_INDEX_URL", "https://ghp_abcdefghijkl@index/simple", "ghp_abcdefghijkl"),
        ("HTTPS_PROXY", "me:hunter2222@proxy:3128", "hunter2222"),
        ("NO_SCHEME", "http://me:pa@ss-word@proxy", "pa@ss-word"),
        ("DB", "postgres://me:se/cret99@db", "se/cret99"),
    ],
)
def test_a_secret_is_redacted_in_every_form(name: str, value: str, secret: str) -> None:
    secrets.remember_named({name: value})
    forms = [value, secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)]
    assert not any(secret in secrets.redact(f"401 for {form}!") for form in forms)
    assert "abcd%2Fefgh" not in secrets.redact(" ".join(forms))


@given(st.text(min_size=9), st.text(), st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_base64_of_a_text_with_a_secret_does_not_give_it_back(
    secret: str, before: str, after: str
) -> None:
    secret = f"{secret.strip()}-secret"
    secrets.remember(secret)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{secret}{after}".encode()).decode()
        redacted = secrets.redact(text)
        assert "***" in redacted
        rest = redacted.replace("***", "A" * (len(text) - len(redacted) + 3))
        assert secret.encode() not in base64.b64decode(
            rest, b"-_" if "-" in rest or "_" in rest else None
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "/home/somebody") for name in ("PWD", "SSH_KEY")),
        *((name, "A-1-value") for name in ("MONKEY", "KEYBOARD", "BYPASS", "TOKENS")),
        ("CACHE_FALLBACK_KEY", "master"),
        ("RESULT_KEY", "tokens_per_sec"),
        ("DOCKER_HOST", "ssh://ubuntu@10.0.0.5"),
        ("URL", "https://host:8000/v1?at=a@b"),
    ],
)
def test_other_values_are_no_secrets(name: str, value: str) -> None:
    secrets.remember_named({name: value})
    text = f"{value} ubuntu at=a@b"
    assert secrets.redact(text) == text
