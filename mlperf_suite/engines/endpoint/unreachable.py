"""Why a server cannot be reached, in a few words."""

from __future__ import annotations

import http.client
import socket
import ssl


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
