"""Standard Webhooks as a receiver checks it: HMAC-SHA256 over `id.timestamp.body`, a window for the timestamp."""

import base64
import hashlib
import hmac
import time


def secret_bytes(secret):
    return base64.b64decode(secret.removeprefix("whsec_"))


def verify_signature(secrets, identifier, timestamp, body, signature, window=300.0, now=None):
    """Standard Webhooks, symmetric: None when one of `secrets` made one of the signatures, else the reason."""
    if not identifier or not timestamp or not signature:
        return "a signature header is missing"
    if not timestamp.isdigit():
        return f"timestamp is no whole number: {timestamp!r}"
    if abs((time.time() if now is None else now) - int(timestamp)) > window:
        return f"timestamp outside the window of {window:g} s"
    content = f"{identifier}.{timestamp}.".encode() + body
    for secret in secrets:
        expected = base64.b64encode(hmac.new(secret_bytes(secret), content, hashlib.sha256).digest()).decode()
        for part in signature.split(" "):
            version, _, value = part.partition(",")
            if version == "v1" and hmac.compare_digest(value, expected):
                return None
    return "no signature matches"
