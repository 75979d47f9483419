"""
Sends one request with ``http.client``. Connections stay open for the next request. An attempt has one deadline,
from the connection to the last byte of the answer: a server that sends a byte now and then does not prolong it.
"""

from __future__ import annotations

import http.client
import io
import os
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple, cast
from urllib.parse import urlsplit

#: Idle connections that one client keeps.
_MOST_IDLE = 8
#: Servers often close a connection after five idle seconds. A request that meets the end of it would fail.
_LONGEST_IDLE_SECONDS = 4.0
_PART = 64 * 1024


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: Optional[bytes]
    #: Seconds for the whole attempt.
    timeout: float


class Response(Protocol):
    """An answer. ``close`` is called once, after its body was read or given up."""

    @property
    def status(self) -> int: ...

    def header(self, name: str) -> Optional[str]:
        """The value of a header, whatever its case."""
        ...

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes of the body; none at its end."""
        ...

    def close(self) -> None: ...


#: Sends a request. It raises an OSError or http.client.HTTPException if there is no answer, and a TimeoutError
#: (in Python 3.9: socket.timeout) if it takes too long. It does not follow redirects: they could leak the key.
Transport = Callable[[Request], Response]


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise socket.timeout("the deadline of the request has passed")
    return seconds


class _Input(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_remaining(self._deadline))
        return self._sock.recv_into(buffer)


class _SocketUntil:
    """The part of a socket that ``http.client`` uses, with a deadline for all calls together."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(_remaining(self._deadline))
            view = view[self._sock.send(view[:_PART]) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Input(self._sock, self._deadline))

    def close(self) -> None:
        """``http.client`` calls it before the last answer of a connection is read. The answer closes the socket."""


def _open(family: int, kind: int, protocol: int, address: Any, seconds: float) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(seconds)
        sock.connect(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    except BaseException:
        sock.close()
        raise


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    """
    Tries all addresses of the host until the deadline. Each one gets an equal part of the time that is left, so an
    address that does not answer leaves time for the others.
    """
    failure: Optional[OSError] = None
    found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    for place, (family, kind, protocol, _, address) in enumerate(found):
        left = len(found) - place
        try:
            return _open(family, kind, protocol, address, _remaining(deadline) / left)
        except OSError as error:
            # Also if this machine does not have the family, such as IPv6.
            failure = error
    raise failure or OSError("the host has no address")


def _is_open(sock: socket.socket) -> bool:
    """Whether the server has neither closed the idle connection nor sent anything on it."""
    try:
        return not select.select([sock], [], [], 0)[0]
    except (OSError, ValueError):
        # A ValueError: a program with many open files has a number that select does not take.
        return False


_Place = Tuple[str, str, int]


class _Answer:
    def __init__(
        self,
        response: http.client.HTTPResponse,
        sock: socket.socket,
        keep: Callable[[socket.socket], None],
    ) -> None:
        self._response = response
        self._sock = sock
        self._keep = keep
        self.status = response.status

    def header(self, name: str) -> Optional[str]:
        return self._response.getheader(name)

    def read(self, size: int) -> bytes:
        return self._response.read(size)

    def close(self) -> None:
        # The end of the body was read, so the next answer begins there.
        is_reusable = self._response.isclosed() and not self._response.will_close
        self._response.close()
        if is_reusable:
            self._keep(self._sock)
        else:
            self._sock.close()


class HttpTransport:
    """
    Can be used by several threads at the same time. ``context``: the certificates that are trusted; default: those
    of the system.
    """

    def __init__(self, context: Optional[ssl.SSLContext] = None) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._idle: Dict[_Place, List[Tuple[float, socket.socket]]] = {}
        self._process = os.getpid()

    def __call__(self, request: Request) -> Response:
        deadline = time.monotonic() + request.timeout
        url = urlsplit(request.url)
        host = url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        place = (url.scheme, host, port)
        sock = self._idle_socket(place) or self._new_socket(place, deadline)
        try:
            # Both classes send to the socket that they are given: TLS is below it.
            connection = http.client.HTTPConnection(host, port)
            connection.sock = cast(socket.socket, _SocketUntil(sock, deadline))
            if url.scheme == "https":
                connection.default_port = 443
            target = url.path + (f"?{url.query}" if url.query else "")
            connection.request(request.method, target, request.body, dict(request.headers))
            response = connection.getresponse()
        except BaseException:
            sock.close()
            raise
        return _Answer(response, sock, lambda one: self._keep(place, one))

    def close(self) -> None:
        """Closes the idle connections. The next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for sockets in idle.values():
            for _, sock in sockets:
                sock.close()

    def _new_socket(self, place: _Place, deadline: float) -> socket.socket:
        scheme, host, port = place
        sock = _connect(host, port, deadline)
        if scheme != "https":
            return sock
        if self._context is None:
            self._context = ssl.create_default_context()
        try:
            sock.settimeout(_remaining(deadline))
            return self._context.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    def _idle_socket(self, place: _Place) -> Optional[socket.socket]:
        while True:
            with self._lock:
                if self._process != os.getpid():
                    # After a fork, the parent uses these connections.
                    self._process, self._idle = os.getpid(), {}
                sockets = self._idle.get(place)
                if not sockets:
                    return None
                since, sock = sockets.pop()
            if time.monotonic() - since < _LONGEST_IDLE_SECONDS and _is_open(sock):
                return sock
            sock.close()

    def _keep(self, place: _Place, sock: socket.socket) -> None:
        with self._lock:
            sockets = self._idle.setdefault(place, [])
            if len(sockets) < _MOST_IDLE:
                sockets.append((time.monotonic(), sock))
                return
        sock.close()

