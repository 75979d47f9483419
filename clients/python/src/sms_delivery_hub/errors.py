"""The errors of the client. Decide by the class or by ``code``, never by the message."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Type


class HubError(Exception):
    """The base class of all errors that the client raises, except those of webhooks."""

    #: The HTTP status; ``None`` without an answer.
    status: Optional[int]
    #: A code of the error catalogue, or of the client. New codes may be added.
    code: str
    #: What went wrong and what to do, for people.
    message: str
    #: The parameter that caused the error, such as ``to`` or ``messages[3].to``; else ``None``.
    param: Optional[str]
    #: Seconds to wait before a retry; ``None`` without a known time.
    retry_after: Optional[float]
    #: Identifies the request in a support case.
    request_id: Optional[str]
    doc_url: Optional[str]
    #: True if the message may still be sent. Repeat with the same ``client_ref`` to learn the outcome.
    is_outcome_unknown: bool

    def __init__(
        self,
        message: str,
        *,
        code: str = "unknown",
        status: Optional[int] = None,
        param: Optional[str] = None,
        retry_after: Optional[float] = None,
        request_id: Optional[str] = None,
        doc_url: Optional[str] = None,
        is_outcome_unknown: bool = False,
    ) -> None:
        # One positional argument, so that the error can be pickled.
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.param = param
        self.retry_after = retry_after
        self.request_id = request_id
        self.doc_url = doc_url
        self.is_outcome_unknown = is_outcome_unknown

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class HubOptionError(HubError):
    """An option of the client is invalid. ``param`` is its name. A mistake in the program."""


class HubConnectionError(HubError):
    """No answer: ``connection_failed`` or ``timeout``. A POST may have taken effect."""


class HubAuthenticationError(HubError):
    """401: the API key is wrong, expired, or not allowed from this address. A retry fails again."""


class HubNotFoundError(HubError):
    """404: there is no such object, or no such path."""


class HubConflictError(HubError):
    """409: another request with this key is in progress, or the object is in another state."""


class HubInvalidRequestError(HubError):
    """422 and other 4xx: correct the request. A retry of the same request fails again."""


class HubRateLimitError(HubError):
    """429: a rate or a limit of the hub is reached. Retry after ``retry_after`` seconds."""


class HubUnavailableError(HubError):
    """5xx: retry with the same idempotency key, after ``retry_after`` seconds if it is known."""


def option_error(param: str, message: str) -> HubOptionError:
    return HubOptionError(message, code="invalid_option", param=param)


def connection_error(code: str) -> HubConnectionError:
    message = "The hub did not answer in time." if code == "timeout" else "The hub cannot be reached."
    return HubConnectionError(message, code=code, is_outcome_unknown=True)


_CLASSES: Mapping[int, Type[HubError]] = {
    401: HubAuthenticationError,
    404: HubNotFoundError,
    409: HubConflictError,
    429: HubRateLimitError,
}


def _class_of(status: int) -> Type[HubError]:
    if status >= 500:
        return HubUnavailableError
    if status >= 400:
        return _CLASSES.get(status, HubInvalidRequestError)
    return HubError


def error_of_answer(
    status: int, detail: Mapping[str, Any], request_id: Optional[str], retry_after: Optional[float]
) -> HubError:
    """The error of an answer. ``detail`` is ``error`` of its body; the others come from its headers."""

    def text(name: str) -> Optional[str]:
        value = detail.get(name)
        return value if isinstance(value, str) else None

    seconds = detail.get("retry_after")
    return _class_of(status)(
        text("message") or f"The hub answered {status}.",
        code=text("code") or "unknown",
        status=status,
        param=text("param"),
        retry_after=seconds if isinstance(seconds, (int, float)) else retry_after,
        request_id=text("request_id") or request_id,
        doc_url=text("doc_url"),
        is_outcome_unknown=detail.get("outcome") == "unknown",
    )
