"""One HTTP server behind a forwarded port: requests with a time limit, few and patient repeats, failures as one sentence."""

from __future__ import annotations

import json
import shlex
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from ragstow.verification.answers import shown
from ragstow.verification.model import Evidence, ObjectRef

_BUSY = 429
_PAUSES_SECONDS = (1.0, 3.0)
"""Before a repeat where the server says that it is busy now."""
_ANSWER_BYTES = 16 << 20
_SHOWN_BODY = 1200

Kind = Literal["unreachable", "timeout", "key", "loading", "busy", "status", "not-json"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: its JSON (None where the body is no JSON), its text, and the seconds from request to last byte."""

    status: int
    data: Any
    text: str
    seconds: float


class Failed(Exception):
    """A request without a usable answer.

    Args:
        kind: what sort of failure.
        text: what happened, for `found`.
        status: the HTTP status where there was one.
        hint: what to do about it.
    """

    def __init__(self, kind: Kind, text: str, *, status: int | None = None, hint: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.status = status
        self.hint = hint


class Server:
    """A server on a port of this machine that stands for a port of a pod.

    Args:
        address, port: where it is reached now.
        pod, pod_port: what it stands for; only for what is shown.
        timeout_seconds: for one request.
        tls: whether it speaks HTTPS; any certificate will do.
        key: sent as bearer token and as Qdrant's `api-key`; never shown.
        pause: sleeps; tests give another.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        pod: ObjectRef,
        pod_port: int,
        timeout_seconds: float,
        key: str | None = None,
        tls: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}", "api-key": key} if key else {}
        scheme = "https" if tls else "http"
        self.pod = pod
        self._tls = tls
        self.pod_port = pod_port
        self._pause = pause
        self._timeout = timeout_seconds
        self._http = httpx2.Client(
            base_url=f"{scheme}://{address}:{port}",
            verify=_any_certificate(),
            timeout=timeout_seconds,
            headers=headers,
            trust_env=False,
            follow_redirects=False,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str) -> Answer:
        """GET; see `ask`."""
        return self.ask("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """POST of JSON whose answer must be JSON; see `ask`."""
        return self.ask("POST", path, body, wants_json=True)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, wants_json: bool = False) -> Answer:
        """One request, repeated where the server is only busy.

        Raises:
            Failed: no answer, none in time, no success, or no JSON where it is wanted.
        """
        for pause in (*_PAUSES_SECONDS, None):
            try:
                return self._once(method, path, body, wants_json)
            except Failed as failure:
                if failure.kind != "busy" or pause is None:
                    raise
                self._pause(pause)
        raise AssertionError("unreachable")

    def evidence(self, method: str, path: str, body: Mapping[str, Any] | None, value: str) -> Evidence:
        """What was seen, with the commands that show it again."""
        place = f"kubectl -n {self.pod.namespace} port-forward pod/{self.pod.name} {self.pod_port} & sleep 1"
        host = f"https://localhost:{self.pod_port}" if self._tls else f"localhost:{self.pod_port}"
        words = [
            "curl",
            "-sk" if self._tls else "-s",
            *(["-X", method] if method not in ("GET", "POST") else []),
            f"{host}{path}",
        ]
        if body is not None:
            text = json.dumps(body)
            text = text if len(text) <= _SHOWN_BODY else f"{text[: _SHOWN_BODY - 3]}..."
            words += ["-H", "Content-Type: application/json", "-d", text]
        return Evidence(f"{place}; {shlex.join(words)}", value)

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None, wants_json: bool) -> Answer:
        started = time.monotonic()
        late = Failed(
            "timeout", f"{method} {path}: no answer in {self._timeout:g} s", hint="give it longer with --answer-timeout"
        )
        content = bytearray()
        try:
            with self._http.stream(method, path, json=dict(body) if body is not None else None) as response:
                for part in response.iter_bytes():
                    content += part
                    # A page that never ends says enough with its beginning.
                    if len(content) > _ANSWER_BYTES:
                        break
                    if time.monotonic() - started > self._timeout:
                        raise late
        except httpx2.TimeoutException:
            raise late from None
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Failed(
                "unreachable",
                f"{method} {path}: port {self.pod_port} of the pod does not answer HTTP: {why}",
                hint=f"kubectl -n {self.pod.namespace} logs {self.pod.name}",
            ) from None
        seconds = time.monotonic() - started
        text = content.decode("utf-8", "replace")
        if not 200 <= response.status_code < 300:
            raise _refusal(response.status_code, f"{method} {path}", text)
        data = _json(text)
        if wants_json and data is None:
            kind = response.headers.get("content-type", "no content type")
            raise Failed(
                "not-json",
                f"{method} {path}: {kind} instead of JSON: {shown(text)}",
                status=response.status_code,
                hint="something else than the engine answers on this port",
            )
        return Answer(response.status_code, data, text, seconds)


def _any_certificate() -> ssl.SSLContext:
    """A certificate names the Service, not this machine's end of the tunnel, and its authority is the cluster's own.

    What is asked is whether the engine answers; the tunnel itself is the API server's, whose certificate is checked.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _refusal(status: int, request: str, text: str) -> Failed:
    said = _message(text)
    words = f"{request}: HTTP {status}{f': {said}' if said else ''}"
    if status in (401, 403):
        return Failed("key", words, status=status, hint="it wants an API key: --api-key-env names the variable that holds it")
    if status == _BUSY:
        return Failed("busy", words, status=status, hint="it was overloaded at every try; try again when less is going on")
    if status == 503 and "loading" in text.lower():
        return Failed("loading", words, status=status, hint="the model is still being loaded; try again later")
    hint = "the engine has no such path: was it started for this task, and is it the engine that was described?"
    return Failed("status", words, status=status, hint=hint if status == 404 and "model" not in said.lower() else "")


def _message(text: str) -> str:
    """The sentence in an error's body: `error` as text, `error.message`, `message`, `detail`, or Qdrant's `status.error`."""
    data = _json(text)
    if not isinstance(data, Mapping):
        return shown(text)
    status = data.get("status")
    for value in (data.get("error"), status.get("error") if isinstance(status, Mapping) else None):
        if isinstance(value, Mapping):
            value = value.get("message")
        if value:
            return shown(value)
    return shown(data.get("message") or data.get("detail") or text)
