"""Connections to the server: found as the command line finds it, and trusted only once the other end is known to be it.

The process behind a Unix socket must belong to root or to this user (`SO_PEERCRED`); whatever listens on a port must prove,
on that very connection, that it knows the token before the token is sent. Nothing here knows of jobs.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import secrets
import socket
import stat
import struct
import threading
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional
from urllib.parse import urlencode

SYSTEM_SOCKET = "/run/warpyard/socket"

#: The longest answer of a process that has not proved to be the server, in bytes.
LONGEST_PROOF = 4096

#: Seconds to wait for a connection, and for an answer beyond the time a request asks the server to wait.
CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 30.0


class WarpyardError(Exception):
    """Anything that keeps a call from succeeding."""


class ServerNotFound(WarpyardError):
    """No server is known, or none answers where one should be."""


class NotTheServer(WarpyardError):
    """The process at the other end is not the server; nothing was sent to it."""


class Refused(WarpyardError):
    """A request the server refused.

    `code` is stable and meant for programs; `help` is the next step, where the server knows one.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = problem.get("code", "")
        self.problems: list[dict[str, Any]] = list(problem.get("problems") or [])
        self.help: Optional[str] = next((p["help"] for p in self.problems if p.get("help")), None)
        detail = problem.get("detail") or problem.get("title") or f"status {status}"
        super().__init__(f"{detail}; {self.help}" if self.help else detail)


class Address:
    """Where a server is: a Unix socket, or a host and port with the token for it."""

    def __init__(self, url: str, token: Optional[str] = None) -> None:
        self.socket: Optional[str] = None
        self.host, self.port = "localhost", 80
        self.token = token
        if url.startswith("unix:"):
            path = url[len("unix:") :]
            self.socket = path[2:] if path.startswith("//") else path
            return
        scheme, _, rest = url.rpartition("://")
        if scheme not in ("", "http"):
            raise ServerNotFound(f"cannot use the address {url}: its scheme is not http or unix")
        host, colon, port = rest.rstrip("/").rpartition(":")
        if colon and port.isdigit():
            self.host, self.port = host.strip("[]"), int(port)
        else:
            self.host = rest.rstrip("/").strip("[]")

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else f"http://{self.host}:{self.port}"

    @classmethod
    def find(cls, server: Optional[str] = None, data: Optional[str] = None) -> "Address":
        """Finds the server: the argument, `WARPYARD_SERVER`, the socket in the data directory, the machine's own server."""
        named = data or os.environ.get("WARPYARD_DATA")
        directory = Path(named) if named else _state_directory()
        url = server or os.environ.get("WARPYARD_SERVER")
        if url:
            if url.startswith("unix:"):
                return cls(url)
            token = os.environ.get("WARPYARD_TOKEN") or _token(directory)
            return cls(url, token)
        if (directory / "address").exists():
            local = directory / "socket"
            if not local.exists():
                raise ServerNotFound(f"no server answers for {directory}; start it with `warpyard up`")
            return cls(f"unix:{local.absolute()}")
        if not named and os.path.exists(SYSTEM_SOCKET):
            return cls(f"unix:{SYSTEM_SOCKET}")
        raise ServerNotFound(
            f"no server is known: there is no {directory}/address; start one with `warpyard up`, or set WARPYARD_SERVER"
        )


def _state_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local/state"
    return base / "warpyard"


def _token(directory: Path) -> Optional[str]:
    """The token in a data directory, unless another user could have put it there."""
    path = directory / "token"
    try:
        # Those that lead to it count, and so do those that links among them lead to.
        for place in {*_with_parents(path.absolute()), *_with_parents(path.resolve(strict=True))}:
            found = place.lstat()
            is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and place != directory
            open_to_others = not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o022 and not is_sticky
            if found.st_uid not in (0, os.geteuid()) or open_to_others:
                raise NotTheServer(f"{place} belongs to another user, or can be written to by one; its token is not used")
        return path.read_text().strip() or None
    except FileNotFoundError:
        return None


def _with_parents(path: Path) -> Iterator[Path]:
    yield path
    yield from path.parents


class _HTTPConnection(http.client.HTTPConnection):
    """An HTTP connection whose other end was found to be the server."""

    # Whoever listens now on an address that was dialled again has proved nothing.
    auto_open = 0

    def __init__(self, address: Address) -> None:
        super().__init__(address.host, address.port, timeout=CONNECT_TIMEOUT)
        self.address = address

    def connect(self) -> None:
        if self.address.socket is not None:
            self.sock = _connect_socket(self.address.socket)
        else:
            super().connect()

    def prove(self) -> None:
        """Has the server prove that it knows the token, for the address that was dialled or for its name."""
        token = self.address.token
        if self.address.socket is not None:
            return
        if not token:
            raise NotTheServer(f"there is no token for {self.address}; set WARPYARD_TOKEN")
        dialled, port = self.sock.getpeername()[:2]
        dialled = f"[{dialled}]" if ":" in dialled else dialled
        for host in (f"{dialled}:{port}", f"{self.host}:{self.port}"):
            nonce = secrets.token_hex(32)
            self.putrequest("GET", f"/v1/proof?nonce={nonce}", skip_host=True)
            self.putheader("Host", host)
            self.endheaders()
            answer = self.getresponse()
            body = answer.read(LONGEST_PROOF)
            if answer.status == 421:
                continue
            if answer.status != 200:
                raise NotTheServer(f"{self.address} does not prove that it knows the token (status {answer.status})")
            if not hmac.compare_digest(_proof_in(body), server_proof(token, nonce, host).encode()):
                raise NotTheServer(f"{self.address} does not know the token")
            return
        raise NotTheServer(f"{self.address} does not answer for this name")


def _proof_in(body: bytes) -> bytes:
    """The proof in an answer that anyone may have written."""
    try:
        return str(json.loads(body)["proof"]).encode(errors="replace")
    except (ValueError, TypeError, KeyError, RecursionError):
        return b""


def server_proof(token: str, nonce: str, host: str) -> str:
    """What a server answers that knows the token: HMAC-SHA256 over a label, the nonce and the host, each ended by a zero byte."""
    message = b"".join(part.encode() + b"\0" for part in ("warpyard server proof 1", nonce, host))
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def _connect_socket(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_TIMEOUT)
        sock.connect(path)
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if uid not in (0, os.geteuid()):
            raise NotTheServer(f"user {uid} listens on {path}, and neither you nor root; nothing was sent")
        return sock
    except BaseException:
        sock.close()
        raise


class Connection:
    """Requests to one server over connections that are kept open, one for each thread and process."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._kept = threading.local()

    def request(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        wait: float = 0.0,
        repeatable: bool = False,
    ) -> Any:
        """Sends a request and gives the JSON of its answer. `wait` is the time it asks the server to wait.

        A kept connection may have been closed by the server meanwhile, so a request that may be repeated is sent once more.
        """
        repeatable = repeatable or method == "GET"
        for attempt in (1, 2):
            kept = self._kept_connection()
            fresh = kept is None
            try:
                connection = kept or self._connect()
                self._kept.connection = (os.getpid(), connection)
                answer = self._send(connection, method, path, query, body, headers, wait)
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if fresh or attempt == 2 or not repeatable:
                    raise ServerNotFound(f"the server at {self.address} does not answer: {error}") from error
                continue
            except BaseException:
                # Half an answer may be on its way: nothing else can use this connection.
                self.close()
                raise
            return _decode(answer, content)
        raise AssertionError("the second attempt returns or raises")

    def stream(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Iterator[bytes]:
        """Reads an answer as it comes, on a connection of its own, for however long that takes."""
        connection = self._connect()
        try:
            answer = self._send(connection, "GET", path, query, None, None, None)
            if answer.status != 200:
                _decode(answer, answer.read())
            while chunk := answer.read1(65536):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise ServerNotFound(f"the server at {self.address} does not answer: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Closes this thread's connection."""
        kept = self._kept_connection()
        if kept is not None:
            kept.close()
        self._kept.connection = None

    def _kept_connection(self) -> Optional[_HTTPConnection]:
        # A connection that a fork copied belongs to the parent, and one that the server closed is of no use.
        pid, connection = getattr(self._kept, "connection", None) or (None, None)
        return connection if pid == os.getpid() and connection is not None and connection.sock is not None else None

    def _connect(self) -> _HTTPConnection:
        connection = _HTTPConnection(self.address)
        try:
            connection.connect()
            connection.prove()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ServerNotFound(f"no server answers at {self.address}: {error}; start it with `warpyard up`") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _send(
        self,
        connection: _HTTPConnection,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]],
        body: Any,
        headers: Optional[Mapping[str, str]],
        wait: Optional[float],
    ) -> http.client.HTTPResponse:
        query = {key: _query_value(value) for key, value in (query or {}).items() if value is not None}
        sent = dict(headers or {})
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        if self.address.token and self.address.socket is None:
            sent["Authorization"] = f"Bearer {self.address.token}"
        connection.sock.settimeout(None if wait is None else ANSWER_TIMEOUT + wait)
        connection.request(method, f"{path}?{urlencode(query)}" if query else path, content, sent)
        return connection.getresponse()


def _query_value(value: Any) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _decode(answer: http.client.HTTPResponse, content: bytes) -> Any:
    if answer.status < 400:
        return json.loads(content) if content else None
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {"detail": content.decode(errors="replace").strip()}
    raise Refused(answer.status, problem)
