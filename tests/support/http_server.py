"""A server of HTTP that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import socket
import threading


class Server:
    """
    Answers each request with the next of its answers; None closes the connection instead.

    The answer to the request of number `twice` is given again, at once or `late`.
    """

    def __init__(self, *answers, tls=None, twice=0, late=False):
        self._tls = tls
        self._twice, self._late, self._held = twice, late, ""
        self.requests = []
        self.connections = 0
        self._answers = list(answers)
        self._listening = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listening.accept()
                self.connections += 1
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
        with connection, connection.makefile("rb") as stream:
            while True:
                head = {}
                first = stream.readline()
                if not first:
                    return
                while line := stream.readline().strip():
                    name, _, value = line.decode().partition(":")
                    head[name.lower()] = value.strip()
                body = stream.read(int(head["content-length"]))
                self.requests.append((first, head, body))
                answer = self._answers.pop(0)
                if answer is None:
                    return
                status, headers, content = answer
                if not isinstance(content, str):
                    content = content([entry["Id"] for entry in json.loads(body)["Entries"]])
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                text = f"HTTP/1.1 {status}\r\n{lines}content-length: {len(content)}\r\n\r\n{content}"
                again = text if self._twice == len(self.requests) else ""
                if self._late:
                    # It comes when the next request is there, before that one's answer.
                    # Held first: the client may be on another connection, with another thread, once it has read this.
                    held, self._held = self._held, again
                    connection.sendall(f"{held}{text}".encode())
                else:
                    connection.sendall(f"{text}{again}".encode())

    def close(self):
        """Stop listening."""
        self._listening.close()
