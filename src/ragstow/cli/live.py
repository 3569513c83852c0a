"""The live cluster behind the cluster options: kubectl's flags, the client they give, and the snapshot it reads.

The flags are kept in click's context, so that a command need not pass them on one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ragstow.errors import UsageError

if TYPE_CHECKING:
    from ragstow.cluster.snapshot import Snapshot
    from ragstow.live.client import ApiClient
    from ragstow.live.kinds import Loss
    from ragstow.live.kubeconfig import Choice
    from ragstow.live.read import Read

_META = "ragstow.live"


def live_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """kubectl's flags that choose a cluster and a user."""
    for option in (
        _option(
            "--request-timeout", "timeout_seconds", metavar="SECONDS", type=click.FloatRange(min=0.1), help="For one call (30)."
        ),
        _option("--token", "token", metavar="TOKEN", help="Bearer token instead of the kubeconfig's user."),
        _option("--server", "server", metavar="URL", help="API server instead of the kubeconfig's."),
        _option("--as-group", "impersonate_groups", metavar="GROUP", multiple=True, help="Group to act as; may be repeated."),
        _option("--as", "impersonate", metavar="USER", help="User to act as."),
        _option("--user", "user", metavar="NAME", help="User of the kubeconfig."),
        _option("--cluster", "cluster", metavar="NAME", help="Cluster of the kubeconfig."),
        _option(
            "--kubeconfig", "kubeconfig", metavar="FILE", help="Kubeconfig (default: KUBECONFIG, ~/.kube/config, in-cluster)."
        ),
        _option("--context", "context", metavar="NAME", help="Context of the kubeconfig (default: the current one)."),
    ):
        command = option(command)
    return command


def _option(flag: str, name: str, **how: Any) -> Callable[..., Any]:
    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value != ():
            ctx.meta.setdefault(_META, {})[name] = flag, value

    return click.option(flag, f"live_{name}", expose_value=False, callback=keep, **how)


def given() -> tuple[str, ...]:
    """The flags that were given, as typed."""
    return tuple(flag for flag, _ in _kept().values())


def typed() -> str:
    """The flags to paste into a next command; a token is no part of it."""
    import shlex

    words: list[str] = []
    for flag, value in _kept().values():
        if flag != "--token":
            words += [word for one in (value if isinstance(value, tuple) else (value,)) for word in (flag, str(one))]
    return shlex.join(words)


def _kept() -> dict[str, tuple[str, Any]]:
    """Name in `Choice` -> flag, value."""
    context = click.get_current_context(silent=True)
    return dict(context.meta.get(_META, {})) if context is not None else {}


@contextmanager
def connected() -> Iterator[ApiClient]:
    """A client for the cluster that flags, kubeconfig and environment name.

    Raises:
        UsageError: no cluster is named, or the extra that talks to clusters is not installed.
        ClusterError: the credentials cannot be had.
    """
    from ragstow.live.kubeconfig import access

    chosen = _choice()
    found = access(chosen, os.environ)
    try:
        from ragstow.live.client import ApiClient
        from ragstow.live.transport import Transport
    except ModuleNotFoundError as error:
        if error.name not in ("httpx2", "wsproto"):
            raise
        raise UsageError(
            "extra-missing", "talking to a live cluster needs the extra 'live'", hint="pip install 'ragstow[live]'"
        ) from None
    client = ApiClient(Transport(found, timeout_seconds=chosen.timeout_seconds))
    try:
        yield client
    finally:
        client.close()


def _choice() -> Choice:
    from ragstow.live.kubeconfig import Choice

    return replace(Choice(), **{name: value for name, (_, value) in _kept().items()})


_HELM = {
    "kubeconfig": "--kubeconfig",
    "context": "--kube-context",
    "server": "--kube-apiserver",
    "token": "--kube-token",
    "impersonate": "--kube-as-user",
    "impersonate_groups": "--kube-as-group",
}


def helm_flags() -> tuple[str, ...] | None:
    """The flags that point `helm` at the same cluster as the same user; None where it has none for what was given."""
    kept = {name: value for name, (_, value) in _kept().items() if name != "timeout_seconds"}
    if set(kept) - set(_HELM):
        return None
    return tuple(
        word
        for name, value in kept.items()
        for item in (value if isinstance(value, tuple) else (value,))
        for word in (_HELM[name], str(item))
    )


def read_live(losses: tuple[Loss, ...] = ("cards",)) -> Read:
    """Everything that is wanted of the live cluster; else as `connected` and `ragstow.live.read.read`."""
    with connected() as client:
        from ragstow.live.read import read

        return read(client, losses=losses)


def snapshot(losses: tuple[Loss, ...], *, as_listed: bool) -> Snapshot:
    """The live cluster as every command starts with it."""
    from ragstow.cluster.read import in_name_order

    found = read_live(losses).snapshot()
    return found if as_listed else replace(found, objects=in_name_order(found.objects))
