"""Real connections: deadlines, kept connections, and servers that send too much or too slowly."""

import os
import socket
import threading
import time
import unittest
from typing import Any, Callable, List, Optional, Tuple
from unittest import mock

from sms_delivery_hub import HubClient, HubConnectionError, HubError, HubInvalidRequestError


class Server:
    """Runs ``serve`` with each connection in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket, int], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self._open: List[socket.socket] = []
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._run, args=(connection, self.connections), daemon=True).start()

    def _run(self, connection: socket.socket, number: int) -> None:
        try:
            self._serve(connection, number)
        except OSError:
            pass

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()


def read_request(connection: socket.socket) -> Optional[bytes]:
    """A request with its body; ``None`` at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Connections(unittest.TestCase):
    def serve(self, serve: Callable[[socket.socket, int], None], **options: Any) -> HubClient:
        self.server = Server(serve)
        self.addCleanup(self.server.close)
        client = HubClient(self.server.url, "hub_test_x", **{"max_retries": 0, **options})
        self.addCleanup(client.close)
        return client

    def test_one_connection_carries_several_requests(self) -> None:
        seen: List[bytes] = []

        def serve(connection: socket.socket, _: int) -> None:
            while True:
                request = read_request(connection)
                if request is None:
                    return
                seen.append(request)
                connection.sendall(ANSWER)

        client = self.serve(serve)
        for _ in range(3):
            client.post("/v1/x", {"text": "заказ"})
        self.assertEqual((len(seen), self.server.connections), (3, 1))
        self.assertIn(b"POST /v1/x HTTP/1.1\r\n", seen[0])
        self.assertIn(b"Authorization: Bearer hub_test_x\r\n", seen[0])
        self.assertTrue(seen[0].endswith('{"text":"заказ"}'.encode()))
        client.close()
        client.get("/v1/x")
        self.assertEqual(self.server.connections, 2)

    def test_a_connection_that_the_server_closed_is_not_used_again(self) -> None:
        def serve(connection: socket.socket, _: int) -> None:
            read_request(connection)
            connection.sendall(ANSWER)
            connection.close()

        client = self.serve(serve)
        client.get("/v1/x")
        # The end of the connection arrives.
        idle = next(iter(client._call._transport._idle.values()))  # type: ignore[attr-defined]
        self.assertEqual(idle[0][1].recv(1, socket.MSG_PEEK), b"")
        client.delete("/v1/x")
        self.assertEqual(self.server.connections, 2)

    def test_an_answer_until_the_end_of_the_connection_and_one_in_chunks_are_read(self) -> None:
        def serve(connection: socket.socket, number: int) -> None:
            while read_request(connection) is not None:
                if number == 1:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[1]")
                    connection.close()
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[2\r\n1\r\n]\r\n0\r\n\r\n")

        client = self.serve(serve)
        self.assertEqual([client.get("/v1/x") for _ in range(3)], [[1], [2], [2]])
        self.assertEqual(self.server.connections, 2)

    def test_an_answer_that_ends_early_is_no_answer(self) -> None:
        def serve(connection: socket.socket, _: int) -> None:
            read_request(connection)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a"')
            connection.close()

        with self.assertRaises(HubConnectionError) as caught:
            self.serve(serve).get("/v1/x")
        self.assertEqual(caught.exception.code, "connection_failed")

    def test_nobody_listens(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        with self.assertRaises(HubConnectionError) as caught:
            HubClient(f"http://127.0.0.1:{port}", "hub_test_x", max_retries=0).account.get()
        self.assertEqual((caught.exception.code, caught.exception.is_outcome_unknown), ("connection_failed", True))

    def test_each_part_of_an_answer_has_the_same_deadline(self) -> None:
        def trickle(head: bytes) -> Callable[[socket.socket, int], None]:
            def serve(connection: socket.socket, _: int) -> None:
                read_request(connection)
                connection.sendall(head)
                # Each byte arrives in time. Without one deadline, this would go on for a day.
                for _ in range(1_000_000):
                    connection.sendall(b" ")
                    time.sleep(0.1)

            return serve

        for head in (b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"):
            with self.assertRaises(HubConnectionError) as caught:
                self.serve(trickle(head), timeout=0.5).get("/v1/x")
            self.assertEqual(caught.exception.code, "timeout", head)

    def test_a_server_that_reads_nothing_meets_the_deadline(self) -> None:
        with self.assertRaises(HubConnectionError) as caught:
            client = self.serve(lambda connection, _: None, timeout=0.5)
            client.post("/v1/x", {"text": "x" * 30_000_000})
        self.assertEqual(caught.exception.code, "timeout")


class Addresses(unittest.TestCase):
    """A host with several addresses. The name service is replaced; the connections are real."""

    def silent_port(self) -> int:
        """A port that answers nothing to a new connection: the queue of its listener is full."""
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        # More than the queue holds on any system. The others wait as the client will.
        for _ in range(16):
            waiting = socket.socket()
            self.addCleanup(waiting.close)
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        return int(listener.getsockname()[1])

    def refusing_port(self) -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    def get(self, addresses: Callable[[int], List[Tuple[int, int]]], timeout: float) -> Any:
        """``addresses`` gets the port of a server that answers, and returns families with ports."""

        def serve(connection: socket.socket, _: int) -> None:
            read_request(connection)
            connection.sendall(ANSWER)

        server = Server(serve)
        self.addCleanup(server.close)
        port = int(server.url.rsplit(":", 1)[1])
        found = [
            (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", one))
            for family, one in addresses(port)
        ]
        with mock.patch("socket.getaddrinfo", return_value=found):
            with HubClient("http://hub.example.com", "hub_test_x", max_retries=0, timeout=timeout) as client:
                return client.account.get()

    def test_one_that_does_not_answer_leaves_time_for_the_others(self) -> None:
        silent = self.silent_port()
        # The silent one gets a second, and a busy machine has the rest for the answer.
        answer = self.get(lambda port: [(socket.AF_INET, silent), *[(socket.AF_INET, port)] * 59], timeout=60)
        self.assertEqual(answer, {})

    def test_one_that_refuses_and_one_of_an_unknown_family_are_left_for_the_next(self) -> None:
        refusing, unknown_family = self.refusing_port(), 9999
        answer = self.get(
            lambda port: [(socket.AF_INET, refusing), (unknown_family, port), (socket.AF_INET, port)], timeout=60
        )
        self.assertEqual(answer, {})

    def test_without_one_that_answers_the_request_meets_its_deadline(self) -> None:
        silent = self.silent_port()
        with self.assertRaises(HubConnectionError) as caught:
            self.get(lambda _: [(socket.AF_INET, silent)] * 3, timeout=0.5)
        self.assertEqual(caught.exception.code, "timeout")


class AnswerWithoutAnEnd(unittest.TestCase):
    def flood(self, status: int) -> HubClient:
        self.sent = 0
        self.closed = threading.Event()

        def serve(connection: socket.socket, _: int) -> None:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 %d X\r\nConnection: close\r\n\r\n" % status)
            try:
                while True:
                    connection.sendall(b" " * 1024 * 1024)
                    self.sent += 1
            finally:
                self.closed.set()

        server = Server(serve)
        self.addCleanup(server.close)
        return HubClient(server.url, "hub_test_x", max_retries=0, timeout=300)

    def test_is_one_error_and_the_connection_is_closed(self) -> None:
        with self.assertRaises(HubError) as caught:
            self.flood(200).account.get()
        error = caught.exception
        self.assertEqual((error.code, error.status, error.is_outcome_unknown), ("answer_too_long", 200, True))
        self.assertTrue(self.closed.wait(60))
        # More than the client reads: what the buffers of the connection hold.
        self.assertLess(self.sent, 64)

    def test_keeps_the_status_of_a_refusal(self) -> None:
        with self.assertRaises(HubInvalidRequestError) as caught:
            self.flood(422).account.get()
        self.assertEqual(caught.exception.status, 422)


@unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
class Fork(unittest.TestCase):
    def test_a_child_does_not_use_the_connections_of_its_parent(self) -> None:
        from sms_delivery_hub.transport import HttpTransport

        transport = HttpTransport()
        place = ("http", "127.0.0.1", 1)
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        transport._keep(place, ours)
        transport._process = -1
        self.assertIsNone(transport._idle_socket(place))
