"""Client of the SMS Delivery Hub: verifies webhooks, and calls the API with types."""

from ._http import NEW_KEY
from ._version import __version__
from .client import HubClient
from .errors import (
    HubAuthenticationError,
    HubConflictError,
    HubConnectionError,
    HubError,
    HubInvalidRequestError,
    HubNotFoundError,
    HubOptionError,
    HubRateLimitError,
    HubUnavailableError,
)
from .signature import (
    TOLERANCE_SECONDS,
    WebhookSignatureError,
    headers_for_test,
    read_events,
    read_standard_events,
    sign_for_test,
)
from .transport import HttpTransport, Request, Response, Transport

__all__ = [
    "NEW_KEY",
    "TOLERANCE_SECONDS",
    "HttpTransport",
    "HubAuthenticationError",
    "HubClient",
    "HubConflictError",
    "HubConnectionError",
    "HubError",
    "HubInvalidRequestError",
    "HubNotFoundError",
    "HubOptionError",
    "HubRateLimitError",
    "HubUnavailableError",
    "Request",
    "Response",
    "Transport",
    "WebhookSignatureError",
    "__version__",
    "headers_for_test",
    "read_events",
    "read_standard_events",
    "sign_for_test",
]
