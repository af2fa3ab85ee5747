"""What a server says, or why it says nothing, in a few words."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl

import msgspec

from mlperf_suite.secrets import scrub

_LONGEST = 4096
"""How much of a server's message is read, in bytes or characters, before it becomes one line."""


def why_unreachable(error: BaseException, patience_s: float) -> str:
    """The reason, in words that follow the server's URL. `patience_s`: the timeout used, in s."""
    match error:
        case ssl.SSLCertVerificationError():
            words = (
                f"its TLS certificate does not verify ({error.verify_message}): "
                "give --endpoint-ca the file of its authority"
            )
        case ssl.SSLError():
            words = f"TLS failed: {error.reason or error}"
        case ConnectionRefusedError():
            words = "refused the connection: is a server running there?"
        case TimeoutError():
            words = f"did not answer within {patience_s:.0f} s"
        case socket.gaierror():
            words = f"its name cannot be found: {error.strerror}"
        case http.client.RemoteDisconnected():
            words = "closed the connection without an answer"
        case http.client.HTTPException():
            words = f"the answer is not HTTP ({type(error).__name__})"
        case _:
            words = f"cannot be reached: {getattr(error, 'strerror', None) or error}"
    return words


def words_of(message: object) -> str:
    """A server's message as one line of at most 100 characters, with known secrets redacted."""
    if isinstance(message, dict):
        message = message.get("message") or message
    if isinstance(message, bytes | bytearray):
        message = bytes(message[:_LONGEST]).decode(errors="replace")
    # Redact before cutting: part of a key would no longer be recognized.
    line = " ".join(scrub(str(message)[:_LONGEST])[:400].split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= 100 else f"{line[:99]}…"


def error_words(content: object) -> str:
    """The message in an error's JSON, as these servers write it, or the whole content instead."""
    if isinstance(content, bytes):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            content = msgspec.json.decode(content)
    if isinstance(content, dict):
        content = content.get("error") or content.get("message") or content.get("detail") or content
    return words_of(content) or "nothing more"
