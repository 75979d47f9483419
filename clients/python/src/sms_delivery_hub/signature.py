"""
Verifies webhooks, by one of the two signatures that each has:

- ``Hub-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>]``, an HMAC-SHA-256 over ``t``, a full stop and the raw body,
  with the whole secret (``whsec_…``) as key;
- those of Standard Webhooks (https://www.standardwebhooks.com): ``webhook-id``, ``webhook-timestamp`` and
  ``webhook-signature``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import time
from typing import Dict, Final, Iterable, List, Mapping, Optional, Protocol, Sequence, Tuple, Union, cast

from ._answer import parse_json
from .contract import Event

#: Maximum difference between the time of a signature and the local clock in both directions, in seconds.
TOLERANCE_SECONDS: Final = 300

Body = Union[bytes, bytearray, memoryview, str]
Secret = Union[str, Sequence[str]]


class Headers(Protocol):
    """The headers of a request, as the frameworks of Python have them."""

    def items(self) -> Iterable[Tuple[str, str]]: ...


_MESSAGES: Mapping[str, str] = {
    "header_missing": "The request has no signature: a header is missing.",
    "header_malformed": "A header of the signature does not have its form.",
    "timestamp_too_old": "The webhook was signed too long ago; is the clock of this machine right?",
    "timestamp_too_new": "The webhook was signed in the future; is the clock of this machine right?",
    "no_match": "No signature matches. Is the body given byte for byte as it was received, and the secret that of "
    "this subscription?",
    "secret_missing": "There is no secret to verify with: is the variable with the secret set?",
    "secret_malformed": "The secret is not whsec_ and Base64: is it given as the hub showed it?",
    "body_not_raw": "The body must be given as raw bytes or as their text, before any JSON parser: what was parsed "
    "cannot be verified.",
    "body_malformed": "The body is not a JSON array of events.",
}


class WebhookSignatureError(Exception):
    """
    An invalid webhook. Answer 400 and ignore it. The message contains nothing of the body or the secret.

    ``code`` is the reason: ``header_missing``, ``header_malformed``, ``timestamp_too_old``, ``timestamp_too_new``,
    ``no_match`` or ``body_malformed``. These are mistakes in the receiver: ``secret_missing``,
    ``secret_malformed`` and ``body_not_raw``.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
        self.message = _MESSAGES[code]

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def _bytes_of(body: Body) -> bytes:
    if isinstance(body, str):
        # Half of a surrogate pair is in no body that the hub signs.
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise WebhookSignatureError("body_not_raw")


def _secrets_of(secret: Secret) -> List[str]:
    secrets = [one for one in ([secret] if isinstance(secret, str) else secret) if one]
    if not secrets:
        raise WebhookSignatureError("secret_missing")
    return secrets


def _hmac(key: bytes, signed: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).digest()


def _hub_key(secret: str) -> bytes:
    return secret.encode("utf-8")


def _standard_key(secret: str) -> bytes:
    text = secret[len("whsec_") :] if secret.startswith("whsec_") else secret
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WebhookSignatureError("secret_malformed") from None


def _is_time(text: str) -> bool:
    return re.fullmatch(r"0|[1-9][0-9]{0,11}", text, re.ASCII) is not None


def _verify(
    keys: Sequence[bytes],
    signatures: Sequence[bytes],
    signed: bytes,
    timestamp: int,
    tolerance_seconds: float,
    now: Optional[float],
) -> None:
    """Raises an error unless a signature matches the signed bytes and one of the keys, and is not too old or new."""
    matches = False
    for key in keys:
        expected = _hmac(key, signed)
        for signature in signatures:
            matches = hmac.compare_digest(expected, signature) or matches
    if not matches:
        raise WebhookSignatureError("no_match")
    age = (time.time() if now is None else now) - timestamp
    # The timestamp has whole seconds, so the tolerance ignores fractions.
    if math.floor(age) > tolerance_seconds:
        raise WebhookSignatureError("timestamp_too_old")
    if math.ceil(age) < -tolerance_seconds:
        raise WebhookSignatureError("timestamp_too_new")


def _parse_events(data: bytes) -> List[Event]:
    try:
        events = parse_json(data)
    except ValueError:
        raise WebhookSignatureError("body_malformed") from None
    if not isinstance(events, list):
        raise WebhookSignatureError("body_malformed")
    return cast(List[Event], events)


def _parse_hub_signature(header: str) -> Tuple[int, List[bytes]]:
    timestamp: Optional[int] = None
    signatures: List[bytes] = []
    for element in (part.strip() for part in header.split(",")):
        if element.startswith("t="):
            # A repeated or malformed time: it is unknown which one was signed.
            if timestamp is not None or not _is_time(element[2:]):
                raise WebhookSignatureError("header_malformed")
            timestamp = int(element[2:])
        elif re.fullmatch(r"v1=[0-9a-f]{64}", element):
            signatures.append(bytes.fromhex(element[3:]))
        # Other elements belong to future schemes and are ignored.
    if timestamp is None or not signatures:
        raise WebhookSignatureError("header_malformed")
    return timestamp, signatures


def read_events(
    body: Body,
    header: Union[str, Sequence[str], None],
    secret: Secret,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: Optional[float] = None,
) -> List[Event]:
    """
    Verifies a webhook and returns its events; raises a :class:`WebhookSignatureError` if it is invalid. Delivery is
    at least once and in any order: drop known events by ``event["id"]``.

    ``body`` is the raw body, before any parser: bytes, or their text. ``header`` is the value of ``Hub-Signature``.
    ``secret`` is the secret of the subscription, or several: one match of a signature and a secret is enough, so
    that a receiver with the old or the new secret keeps working during a rotation. The comparison takes constant
    time. ``now``: seconds since the epoch, for tests.
    """
    data = _bytes_of(body)
    text = header if isinstance(header, str) or header is None else ",".join(header)
    if not text:
        raise WebhookSignatureError("header_missing")
    timestamp, signatures = _parse_hub_signature(text)
    keys = [_hub_key(one) for one in _secrets_of(secret)]
    _verify(keys, signatures, b"%d." % timestamp + data, timestamp, tolerance_seconds, now)
    return _parse_events(data)


def _parse_standard_signatures(header: str) -> List[bytes]:
    signatures: List[bytes] = []
    for element in header.split(" "):
        version, _, value = element.partition(",")
        if version != "v1":
            # Other versions belong to other schemes and are ignored.
            continue
        try:
            signatures.append(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            continue
    if not signatures:
        raise WebhookSignatureError("header_malformed")
    return signatures


def read_standard_events(
    body: Body,
    headers: Headers,
    secret: Secret,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: Optional[float] = None,
) -> List[Event]:
    """
    As :func:`read_events`, by the headers of Standard Webhooks. ``headers``: all headers of the request; the case
    of their names does not matter.
    """
    data = _bytes_of(body)
    given = {name.lower(): value for name, value in headers.items()}
    values = [given.get(name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature")]
    message_id, time_text, signature_text = (value or "" for value in values)
    if not message_id or not time_text or not signature_text:
        raise WebhookSignatureError("header_missing")
    if not _is_time(time_text):
        raise WebhookSignatureError("header_malformed")
    signatures = _parse_standard_signatures(signature_text)
    keys = [_standard_key(one) for one in _secrets_of(secret)]
    signed = f"{message_id}.{time_text}.".encode("utf-8", "surrogatepass") + data
    _verify(keys, signatures, signed, int(time_text), tolerance_seconds, now)
    return _parse_events(data)


def sign_for_test(body: Body, secret: str, at: Optional[float] = None) -> str:
    """The header ``Hub-Signature`` that the hub would send, for tests of a receiver. ``at``: seconds since the epoch."""
    timestamp = math.floor(time.time() if at is None else at)
    return f"t={timestamp},v1={_hmac(_hub_key(secret), b'%d.' % timestamp + _bytes_of(body)).hex()}"


def headers_for_test(
    body: Body, secret: str, event_batch: str = "evb_test", at: Optional[float] = None
) -> Dict[str, str]:
    """
    All headers with which the hub would send a body, for tests of a receiver: those of the hub, and those of
    Standard Webhooks. ``event_batch``: the id of the batch.
    """
    moment = time.time() if at is None else at
    timestamp = math.floor(moment)
    signed = f"{event_batch}.{timestamp}.".encode("utf-8") + _bytes_of(body)
    signature = base64.b64encode(_hmac(_standard_key(secret), signed)).decode("ascii")
    return {
        "content-type": "application/json",
        "hub-event-id": event_batch,
        "hub-signature": sign_for_test(body, secret, moment),
        "webhook-id": event_batch,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }
