"""Sends requests to one API server: TLS, proxies, impersonation, a timeout on every call, retries where they are safe.

It knows HTTP and Kubernetes' `Status`, no resources. Kept thin on httpx2: a Kubernetes client library would bring generated
models of all kinds, which raw objects do not need, and none of those measured has kubectl's rules for kubeconfigs,
impersonation and port-forward together.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.credentials import Credentials
from ragstow.live.failures import ApiError, Conflict, Forbidden, Gone, Invalid, NotFound, Owned, Right, unreachable
from ragstow.live.kubeconfig import Access

JSON = "application/json"
_CONNECT_SECONDS = 10.0
_TRIES = 5
_CONNECT_TRIES = 3
_END_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_BROKEN = frozenset({500, 502, 503, 504})
_CONNECTIONS = 8
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_NOT_ALLOWED = re.compile(r'User ".*" cannot ', re.DOTALL)
"""How the authorizer words a refusal; other 403s come from admission: quotas, policies."""
_STARTING = re.compile(r'"system:(?:basic-user|discovery|public-info-viewer)" not found')
"""A server that has just started knows no roles yet, not even its own, and refuses everybody for a moment."""
_MANAGER = re.compile(r'conflict with "([^"]*)"')

Query = Mapping[str, str] | Sequence[tuple[str, str]]


class Transport:
    """Requests to one API server; may be used by several threads.

    Args:
        access: server and user.
        timeout_seconds: for one call, from its start to the end of a pause in the answer.
        sleep: how to wait between tries (tests give their own).
    """

    def __init__(self, access: Access, *, timeout_seconds: float = 30.0, sleep: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self.timeout_seconds = timeout_seconds
        self._sleep = sleep
        self._credentials = Credentials(access)
        self.on_warning: Callable[[str], None] = _unheard
        """Called with each warning of the server (header `Warning`, code 299)."""
        self._lock = threading.Lock()
        self._http: httpx2.Client | None = None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None

    def json(self, method: str, path: str, right: Right, **how: Any) -> Any:
        """The decoded answer; else as `send`."""
        import msgspec

        data = self.send(method, path, right, **how)
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            raise ClusterError("answer-broken", f"{self.access.server} gave no JSON for {path}: is it an API server?") from None

    def send(
        self,
        method: str,
        path: str,
        right: Right,
        *,
        query: Query = (),
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float | None = None,
        role: str = "read",
        tries: int = _TRIES,
    ) -> bytes:
        """Send one request and return its answer, trying again where that is safe.

        Args:
            method: HTTP method.
            path: absolute path on the server.
            right: what is asked for, named when it is forbidden.
            query: query parameters.
            body: sent as JSON.
            content_type: of the body.
            accept: wanted media type.
            timeout_seconds: instead of the transport's own.
            role: the role of `ragstow rbac` that has `right`.
            tries: how often to try at most.

        Raises:
            ApiError: the server refused (Forbidden, NotFound, Conflict, Gone, others).
            ClusterError: the server cannot be reached or does not accept the credentials.
            TimeoutReached: it did not answer in time.
        """
        content = json.dumps(body).encode() if body is not None else None
        refreshed = False
        for attempt in range(1, tries + 1):
            headers = {"Accept": accept, **({"Content-Type": content_type} if content is not None else {})}
            try:
                answer = self._client().request(
                    method, self.access.server + path, params=_parameters(query), content=content,
                    headers=self.headers(headers), timeout=self._timeout(timeout_seconds), extensions=self._extensions(),
                )  # fmt: skip
            except httpx2.HTTPError as error:
                sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
                if (
                    attempt < min(tries, _CONNECT_TRIES)
                    and (method == "GET" or not sent)
                    and not isinstance(error, httpx2.ReadTimeout)
                ):
                    self._sleep(_pause(attempt))
                    continue
                raise self._failure(error, timeout_seconds) from None
            if answer.is_success:
                for text in _warnings(answer):
                    self.on_warning(text)
                return answer.content
            if answer.status_code == 401 and not refreshed and self._credentials.refresh():
                refreshed = True
                self.close()
                continue
            wait = _pause(attempt) if self._starting(answer) else _wait(answer, method, attempt)
            if wait is not None and attempt < tries:
                self._sleep(wait)
                continue
            raise self.refused(answer.status_code, answer.content, right, role)
        raise AssertionError("the last try either answers or raises")

    @contextmanager
    def stream(self, path: str, right: Right, *, query: Query, timeout_seconds: float) -> Iterator[Iterator[bytes]]:
        """A GET whose answer is read line by line as it comes (watch, logs -f); no retries.

        Raises:
            ApiError, ClusterError, TimeoutReached: as `send`.
        """
        try:
            with self._client().stream(
                "GET", self.access.server + path, params=_parameters(query), headers=self.headers({"Accept": JSON}),
                timeout=self._timeout(timeout_seconds), extensions=self._extensions(),
            ) as answer:  # fmt: skip
                if not answer.is_success:
                    raise self.refused(answer.status_code, answer.read(), right, "read")
                yield (line.encode() for line in answer.iter_lines())
        except httpx2.HTTPError as error:
            raise self._failure(error, timeout_seconds) from None

    @contextmanager
    def websocket(
        self, path: str, right: Right, *, query: Query, protocols: list[str], timeout_seconds: float, role: str
    ) -> Iterator[Any]:
        """A websocket session to a path (exec, port-forward).

        Raises:
            ApiError, ClusterError, TimeoutReached: as `send`.
        """
        from httpx2.websockets import WebSocketUpgradeError

        for attempt in range(1, _CONNECT_TRIES + 1):
            opened = False
            try:
                with self._client().websocket(
                    self.access.server + path, params=_parameters(query), subprotocols=protocols, headers=self.headers({}),
                    timeout=self._timeout(timeout_seconds), extensions=self._extensions(),
                    keepalive_ping_interval_seconds=None,
                ) as session:  # fmt: skip
                    opened = True
                    try:
                        yield session
                    finally:
                        _end(session)
                return
            except WebSocketUpgradeError as error:
                answer = error.response
                raise self.refused(answer.status_code, answer.read(), right, role) from None
            except httpx2.HTTPError as error:
                # Nothing was asked yet where no connection came about.
                if opened or attempt == _CONNECT_TRIES or not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                    raise self._failure(error, timeout_seconds) from None
                self._sleep(_pause(attempt))

    @staticmethod
    def _starting(answer: httpx2.Response) -> bool:
        return answer.status_code == 403 and bool(_STARTING.search(_status(answer.content)[0]))

    def headers(self, more: Mapping[str, str]) -> list[tuple[str, str]]:
        """All headers of a request: credentials and impersonation too."""
        impersonated = [(name, value) for name, values in self.access.impersonate.items() for value in values]
        return [*more.items(), *self._credentials.headers().items(), *impersonated]

    def refused(self, status: int, content: bytes, right: Right, role: str) -> ClusterError:
        """The error of an answer that is no success."""
        message, reason = _status(content)
        if status == 401:
            who = f" as {self.access.user_name}" if self.access.user_name else ""
            return ClusterError(
                "unauthorized",
                f"{self.access.server} does not accept the credentials{who} (context {self.access.name})",
                hint="log in again, or choose another --context",
            )
        if status == 403 and (not message or _NOT_ALLOWED.search(message)):
            return Forbidden(right, message or "forbidden", role=role)
        kind = {400: Invalid, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}.get(status, ApiError)
        error = kind(status, reason, f"{right.verb} {right.resource}: {message or f'HTTP {status}'}")
        if isinstance(error, Conflict):
            error.owned = _owned(content)
        return error

    def _failure(self, error: httpx2.HTTPError, timeout_seconds: float | None) -> ClusterError | TimeoutReached:
        if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
            seconds = timeout_seconds or self.timeout_seconds
            return TimeoutReached(
                "api-timeout",
                f"the API server {self.access.server} did not answer within {seconds:g} s",
                hint="--request-timeout",
            )
        return unreachable(self.access.server, _words(error))

    def _client(self) -> httpx2.Client:
        with self._lock:
            if self._http is None:
                self._http = _http_client(self.access, self._credentials)
            return self._http

    def _timeout(self, seconds: float | None) -> httpx2.Timeout:
        whole = seconds or self.timeout_seconds
        return httpx2.Timeout(whole, connect=min(_CONNECT_SECONDS, whole))

    def _extensions(self) -> dict[str, Any]:
        return {"sni_hostname": self.access.server_name} if self.access.server_name else {}


def _end(session: Any) -> None:
    """Wake a session's reading thread and wait for it before its socket is closed.

    Else the number of the closed socket can be given to a new connection of another thread while the reader still reads from
    that number: it would take the other's bytes.
    """
    stream = session.stream
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # Not SSLSocket.shutdown, which takes the TLS object away from under the reader.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
    reader = getattr(session, "_background_receive_task", None)
    if reader is not None:
        reader.join(_END_SECONDS)


def _parameters(query: Query) -> httpx2.QueryParams:
    return httpx2.QueryParams(tuple(query.items() if isinstance(query, Mapping) else query))


def _http_client(access: Access, credentials: Credentials) -> httpx2.Client:
    try:
        return httpx2.Client(
            verify=_tls(access, credentials),
            proxy=access.proxy,
            follow_redirects=False,
            event_hooks={"response": [_keep_refusal]},
            limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
        )
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise ClusterError("proxy-unusable", f"the proxy {access.proxy} cannot be used: {error}") from None


def _keep_refusal(answer: httpx2.Response) -> None:
    """The words of a refused upgrade must be read before its stream is closed."""
    if answer.status_code >= 400:
        answer.read()


def _tls(access: Access, credentials: Credentials) -> ssl.SSLContext:
    try:
        authority = access.authority.decode("ascii", "ignore") if access.authority else None
        context = ssl.create_default_context(cadata=authority)
        # Authorities of many clusters lack extensions that Python's strict mode wants; kubectl takes them too.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        pair = credentials.certificate()
        if pair is not None:
            _load_pair(context, *pair)
    except ssl.SSLError as error:
        raise ClusterError("tls-broken", f"the certificates of context {access.name} cannot be used: {error}") from None
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python's TLS reads them from files only: one that only we can read, for the moment."""
    file, name = tempfile.mkstemp(prefix="ragstow-", suffix=".pem")
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(certificate + b"\n" + key)
        context.load_cert_chain(name)
    finally:
        os.unlink(name)


def _wait(answer: httpx2.Response, method: str, attempt: int) -> float | None:
    """Seconds to wait before the next try; None where trying again is wrong or useless."""
    asked = answer.headers.get("retry-after", "")
    after = min(float(asked), _LONGEST_WAIT_SECONDS) if asked.isdecimal() else None
    if answer.status_code == 429:
        return after if after is not None else _pause(attempt)
    if answer.status_code in _BROKEN and (method == "GET" or (answer.status_code == 503 and after is not None)):
        return after if after is not None else _pause(attempt)
    return None


def _pause(attempt: int) -> float:
    """0.25 s, doubled with every try, plus up to a quarter so that many clients do not come back together."""
    return float(0.25 * 2 ** (attempt - 1) * (1 + random.random() / 4))


def _status(content: bytes) -> tuple[str, str]:
    try:
        document = json.loads(content)
    except ValueError:
        return content[:200].decode("utf-8", "replace").strip(), ""
    if not isinstance(document, Mapping):
        return "", ""
    return str(document.get("message") or ""), str(document.get("reason") or "")


def _owned(content: bytes) -> tuple[Owned, ...]:
    """The fields of a server-side apply that belong to others; the server's sentence is `conflict with "NAME" ...`."""
    try:
        causes = (json.loads(content).get("details") or {}).get("causes") or ()
    except (ValueError, AttributeError):
        return ()
    return tuple(
        Owned(str(cause.get("field") or ""), found[1] if (found := _MANAGER.search(str(cause.get("message")))) else "")
        for cause in causes
        if cause.get("reason") == "FieldManagerConflict"
    )


def _warnings(answer: httpx2.Response) -> list[str]:
    """The texts of `Warning: 299 - "text"` headers (RFC 7234 5.5); quotes inside are escaped."""
    found = (_WARNING.match(value) for value in answer.headers.get_list("warning"))
    return [match[1].replace('\\"', '"').replace("\\\\", "\\") for match in found if match]


def _unheard(_: str) -> None:
    pass


def _words(error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "no connection in time"
    return str(error) or type(error).__name__
