"""Turns an `Access` into headers and a client certificate; runs credential plugins and reads token files again when they age.

The one place of `live` that starts a process. Reference: client-go credential plugins (client.authentication.k8s.io).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ragstow.errors import ClusterError
from ragstow.live.kubeconfig import Access, ExecPlugin

_PLUGIN_SECONDS = 60
_TOKEN_FILE_SECONDS = 60
"""Bound tokens of pods are rotated; client-go reads the file again after this time too."""
_EARLY_SECONDS = 10


@dataclass(frozen=True, slots=True)
class _Issued:
    token: str | None
    certificate: bytes | None
    key: bytes | None
    expires: float | None


class Credentials:
    """The credentials of one `Access`; may be used by several threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._issued: _Issued | None = None
        self._file_token: tuple[float, str] | None = None
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """The Authorization header, where there is one."""
        token = self._token()
        if token:
            return {"Authorization": f"Bearer {token}"}
        if self._access.basic is not None:
            return {"Authorization": "Basic " + base64.b64encode(":".join(self._access.basic).encode()).decode()}
        return {}

    def certificate(self) -> tuple[bytes, bytes] | None:
        """Client certificate and key as PEM, where there are some."""
        if self._access.certificate and self._access.key:
            return self._access.certificate, self._access.key
        if self._access.plugin is not None:
            issued = self._plugin(self._access.plugin)
            if issued.certificate and issued.key:
                return issued.certificate, issued.key
        return None

    def refresh(self) -> bool:
        """Forget what was issued, after a 401; whether trying again may help."""
        with self._lock:
            self._issued = self._file_token = None
        return self._access.plugin is not None or self._access.token_file is not None

    def _token(self) -> str | None:
        if self._access.token:
            return self._access.token
        if self._access.token_file is not None:
            with self._lock:
                now = time.monotonic()
                if self._file_token is None or now - self._file_token[0] > _TOKEN_FILE_SECONDS:
                    try:
                        self._file_token = now, self._access.token_file.read_text().strip()
                    except OSError as error:
                        text = f"the token file {self._access.token_file} cannot be read: {error.strerror or error}"
                        raise ClusterError("token-unreadable", text) from None
                return self._file_token[1]
        if self._access.plugin is not None:
            return self._plugin(self._access.plugin).token
        return None

    def _plugin(self, plugin: ExecPlugin) -> _Issued:
        with self._lock:
            issued = self._issued
            if issued is None or (issued.expires is not None and time.time() > issued.expires - _EARLY_SECONDS):
                issued = self._issued = _run(plugin)
            return issued


def _run(plugin: ExecPlugin) -> _Issued:
    if shutil.which(plugin.command) is None:
        hint = plugin.install_hint or "install it, or choose another user"
        raise ClusterError("plugin-missing", f"the credential plugin {plugin.command} is not installed", hint=hint)
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info is not None:
        spec["cluster"] = dict(plugin.cluster_info)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(
            [plugin.command, *plugin.arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=_PLUGIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = f"the credential plugin {plugin.command} did not answer within {_PLUGIN_SECONDS} s"
        raise ClusterError("plugin-failed", text, hint="log in first; it is not asked to prompt") from None
    except OSError as error:
        raise ClusterError("plugin-failed", f"the credential plugin {plugin.command} cannot be run: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        text = f"the credential plugin {plugin.command} failed ({done.returncode}): {said[-1] if said else 'it said nothing'}"
        raise ClusterError("plugin-failed", text, hint="run it by hand; often a new login is needed")
    return _issued(plugin, done.stdout)


def _issued(plugin: ExecPlugin, output: bytes) -> _Issued:
    try:
        document = json.loads(output)
        status = document["status"]
        expires = status.get("expirationTimestamp")
        moment = datetime.fromisoformat(str(expires)).astimezone(UTC).timestamp() if expires else None
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not (status.get("token") or (certificate and key)) or not isinstance(document, Mapping):
            raise ValueError("neither a token nor a certificate")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"the credential plugin {plugin.command} printed no usable ExecCredential: {error}"
        raise ClusterError("plugin-failed", text) from None
    return _Issued(status.get("token"), certificate.encode() if certificate else None, key.encode() if key else None, moment)
