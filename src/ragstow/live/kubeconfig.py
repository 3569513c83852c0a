"""Which API server and which credentials, decided as kubectl does: --kubeconfig, else KUBECONFIG (a list of files, merged,
first wins), else ~/.kube/config; where none of them says anything, the service account of the pod we run in.

Only files and variables are read here; nothing is sent. References: Kubernetes "Organizing cluster access using kubeconfig
files", client-go tools/clientcmd.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstow import kubeyaml
from ragstow.errors import InputError, Place, UsageError

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line says: all of kubectl's flags that choose a cluster and a user; None means not given."""

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    token: str | None = None
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A credential plugin (client.authentication.k8s.io): a program that prints a token or a certificate."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """All that is needed to talk to one API server; secrets are kept out of its repr."""

    server: str
    name: str
    """What to call it: the context, or "in-cluster"."""
    user_name: str = ""
    namespace: str = "default"
    authority: bytes | None = field(default=None, repr=False)
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    basic: tuple[str, str] | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None
    impersonate: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Header -> values."""


def access(choice: Choice, environment: Mapping[str, str], *, account: Path = _ACCOUNT) -> Access:
    """The server and user that flags, files and variables name.

    Args:
        choice: the flags.
        environment: the process's variables (KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST).
        account: where a pod finds its service account.

    Raises:
        UsageError: no cluster is named, or a context, cluster or user does not exist.
        InputError: a kubeconfig cannot be read or is broken.
    """
    config = load(choice.kubeconfig, environment)
    named = choice.context or choice.cluster or choice.server
    if not config["clusters"] and not config["contexts"] and not named:
        found = _in_cluster(choice, environment, account)
        if found is not None:
            return found
        raise UsageError(
            "no-cluster",
            "which cluster? no kubeconfig names one, and no saved cluster is given",
            hint="--context NAME, --kubeconfig FILE or KUBECONFIG for a live cluster; --from PATH for a saved one",
        )
    return _from_config(choice, config)


def load(explicit: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The merged kubeconfig: `clusters`, `users` and `contexts` by name, and `current`; of two entries the first wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current": ""}
    for path in _paths(explicit, environment):
        if not path.exists() and explicit is None:
            continue
        document = _document(path)
        merged["current"] = merged["current"] or str(document.get("current-context") or "")
        for section, inner in _SECTIONS.items():
            listed = document.get(section) or []
            if not isinstance(listed, list):
                raise InputError("kubeconfig-broken", f"{section} is not a list", place=Place(str(path)))
            for entry in listed:
                name = entry.get("name") if isinstance(entry, Mapping) else None
                value = entry.get(inner) if isinstance(entry, Mapping) else None
                if isinstance(name, str):
                    value = value if isinstance(value, Mapping) else {}
                    merged[section].setdefault(name, {**value, "__folder": path.parent})
    return merged


def _paths(explicit: str | None, environment: Mapping[str, str]) -> list[Path]:
    if explicit is not None:
        return [Path(explicit)]
    listed = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return [Path(part) for part in dict.fromkeys(listed)]
    return [Path(environment.get("HOME") or Path.home()) / ".kube" / "config"]


def _document(path: Path) -> Mapping[str, Any]:
    try:
        documents = kubeyaml.load_all(path.read_bytes(), file=str(path))
    except OSError as error:
        text = f"the kubeconfig cannot be read: {error.strerror or error}"
        raise InputError("kubeconfig-unreadable", text, place=Place(str(path))) from None
    value = documents[0].value if documents else {}
    if not isinstance(value, Mapping):
        raise InputError("kubeconfig-broken", "this is no kubeconfig", place=Place(str(path)))
    return value


def _from_config(choice: Choice, config: Mapping[str, Any]) -> Access:
    name = choice.context or config["current"]
    context: Mapping[str, Any] = {}
    if name:
        context = _named(config, "contexts", name, "--context" if choice.context else "current-context")
    elif not choice.server and not choice.cluster:
        raise UsageError(
            "no-context",
            "the kubeconfig has no current context",
            hint=f"--context with one of: {_listed(config['contexts'])}; or kubectl config use-context NAME",
        )
    cluster_name = choice.cluster or str(context.get("cluster") or "")
    user_name = choice.user or str(context.get("user") or "")
    cluster = _named(config, "clusters", cluster_name, f"context {name}") if cluster_name else {}
    user = _named(config, "users", user_name, f"context {name}") if user_name else {}
    server = choice.server or str(cluster.get("server") or "")
    if not server:
        raise UsageError("no-server", f"cluster {cluster_name!r} of the kubeconfig names no server")
    if "auth-provider" in user:
        raise UsageError(
            "auth-provider",
            f"user {user_name} has an auth-provider, which Kubernetes removed in 1.26",
            hint="use the exec credential plugin of your cloud (for example kubelogin, gke-gcloud-auth-plugin)",
        )
    token_file = _path(user, "tokenFile")
    return Access(
        server=server.rstrip("/"),
        name=name or cluster_name or server,
        user_name=user_name,
        namespace=str(context.get("namespace") or "default"),
        authority=_bytes(cluster, "certificate-authority"),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
        certificate=_bytes(user, "client-certificate"),
        key=_bytes(user, "client-key"),
        token=choice.token or (None if token_file else user.get("token") or None),
        token_file=None if choice.token else token_file,
        basic=(str(user["username"]), str(user.get("password") or "")) if user.get("username") else None,
        plugin=_plugin(user, cluster, user_name) if user.get("exec") and not choice.token else None,
        impersonate=_impersonation(choice, user),
    )


def _named(config: Mapping[str, Any], section: str, name: str, by: str) -> Mapping[str, Any]:
    found = config[section].get(name)
    if found is None:
        kind = section.removesuffix("s")
        raise UsageError(
            f"{kind}-unknown", f"there is no {kind} {name!r} ({by})", hint=f"there are: {_listed(config[section])}"
        )
    return dict(found)


def _listed(table: Mapping[str, Any]) -> str:
    return ", ".join(sorted(table)) or "none"


def _path(entry: Mapping[str, Any], key: str) -> Path | None:
    """A file named in a kubeconfig; relative ones lie beside the kubeconfig that names them."""
    value = entry.get(key)
    return Path(entry["__folder"]) / str(value) if value else None


def _bytes(entry: Mapping[str, Any], key: str) -> bytes | None:
    """PEM out of `KEY-data` (base64), else of the file `KEY`."""
    data = entry.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=False)
        except (binascii.Error, ValueError):
            raise InputError("kubeconfig-broken", f"{key}-data is not base64", place=Place(str(entry["__folder"]))) from None
    path = _path(entry, key)
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        text = f"{key} of the kubeconfig cannot be read: {error.strerror or error}"
        raise InputError("kubeconfig-unreadable", text, place=Place(str(path))) from None


def _plugin(user: Mapping[str, Any], cluster: Mapping[str, Any], user_name: str) -> ExecPlugin:
    raw = user["exec"]
    command = raw.get("command") if isinstance(raw, Mapping) else None
    if not isinstance(command, str) or not command:
        raise InputError("kubeconfig-broken", f"user {user_name}: exec has no command", place=Place(str(user["__folder"])))
    if os.sep in command and not os.path.isabs(command):
        command = str(Path(user["__folder"]) / command)
    info: dict[str, Any] | None = None
    if raw.get("provideClusterInfo") is True:
        info = {"server": cluster.get("server"), "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify") is True}
        authority = _bytes(cluster, "certificate-authority")
        if authority is not None:
            info["certificate-authority-data"] = base64.b64encode(authority).decode()
        for key in ("tls-server-name", "proxy-url"):
            if cluster.get(key):
                info[key] = cluster[key]
    return ExecPlugin(
        api_version=str(raw.get("apiVersion") or "client.authentication.k8s.io/v1"),
        command=command,
        arguments=tuple(str(item) for item in raw.get("args") or ()),
        environment={
            str(item["name"]): str(item["value"]) for item in raw.get("env") or () if "name" in item and "value" in item
        },
        install_hint=str(raw.get("installHint") or ""),
        cluster_info=info,
    )


def _impersonation(choice: Choice, user: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """--as wins over what the kubeconfig says, wholly: groups of one user never go with another."""
    if choice.impersonate or choice.impersonate_groups:
        user = {"as": choice.impersonate, "as-groups": choice.impersonate_groups}
    who, groups = user.get("as"), tuple(str(item) for item in user.get("as-groups") or ())
    uid, extra = user.get("as-uid"), user.get("as-user-extra") or {}
    if not who:
        if groups:
            raise UsageError("as-group-alone", "a group can only be impersonated together with a user", hint="add --as NAME")
        return {}
    headers: dict[str, tuple[str, ...]] = {"Impersonate-User": (str(who),)}
    if groups:
        headers["Impersonate-Group"] = groups
    if uid:
        headers["Impersonate-Uid"] = (str(uid),)
    for key, values in extra.items():
        headers[f"Impersonate-Extra-{key}"] = tuple(str(item) for item in values)
    return headers


def _in_cluster(choice: Choice, environment: Mapping[str, str], account: Path) -> Access | None:
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token = account / "token"
    if not host or not token.exists():
        return None
    authority, namespace = account / "ca.crt", account / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        name="in-cluster",
        user_name="the pod's service account",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authority=authority.read_bytes() if authority.exists() else None,
        token=choice.token,
        token_file=None if choice.token else token,
        impersonate=_impersonation(choice, {}),
    )
