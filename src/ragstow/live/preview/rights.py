"""The rights that a procedure needs, asked for before anything is done, so that all missing ones are named at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragstow.errors import ClusterError
from ragstow.live.client import ApiClient
from ragstow.live.discovery import Resources
from ragstow.live.failures import Right
from ragstow.render.actions import (
    Action,
    ApplyObject,
    Cordon,
    DeleteObject,
    EvictGpuPods,
    MergePatch,
    Procedure,
    RestartDaemonSet,
    RestartPluginPod,
    SetLabels,
    Uncordon,
)


def refuse_missing(client: ApiClient, procedure: Procedure, *, namespace_there: bool = True, undo: bool = False) -> None:
    """Raise where a right is missing that the procedure needs.

    Args:
        client: the API server.
        procedure: what will be done.
        namespace_there: whether the service's namespace exists already.
        undo: it is to be taken back.

    Raises:
        ClusterError: which rules are missing; or the server cannot be asked.
    """
    rights = wanted(procedure, client.resources(), namespace_there=namespace_there, undo=undo)
    missing = [right for right in rights if not client.may(right)]
    if missing:
        rules = "\n".join(f"  {rule}" for rule in _merged(missing))
        raise ClusterError(
            "forbidden",
            f"not allowed to {'undo' if undo else 'apply'} this; the RBAC rules that are missing:\n{rules}",
            hint="`ragstow rbac apply` prints the role that has them",
        )


def wanted(
    procedure: Procedure, resources: Resources, *, namespace_there: bool = True, undo: bool = False
) -> tuple[Right, ...]:
    """Every right that is needed, once."""
    # What was applied is deleted, or taken back to what it was; what was deleted is made again.
    verbs = ("get", "create", "delete", "patch") if undo else ("get", "create", "patch")
    found = dict.fromkeys(right for action in procedure.actions for right in _of(action, resources, verbs))
    own = procedure.namespace
    found |= dict.fromkeys(Right(verb, "configmaps", "", own) for verb in ("create", "patch", "delete"))
    found |= dict.fromkeys(
        Right(verb, "leases", "coordination.k8s.io", "kube-system") for verb in ("create", "get", "patch", "delete")
    )
    if not namespace_there:
        found[Right("create", "namespaces")] = None
    return tuple(found)


def _of(action: Action, resources: Resources, verbs: Sequence[str]) -> Iterator[Right]:
    if isinstance(action, ApplyObject):
        manifest = action.manifest
        resource = resources.of(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        if resource is not None:
            namespace = str(manifest["metadata"].get("namespace") or "") if resource.namespaced else ""
            for verb in verbs:
                yield Right(verb, resource.plural, resource.group, namespace)
    elif isinstance(action, DeleteObject | MergePatch):
        resource = resources.of(action.api_version, action.kind)
        if resource is not None:
            verb = "delete" if isinstance(action, DeleteObject) else "patch"
            yield Right(verb, resource.plural, resource.group, action.namespace)
    elif isinstance(action, SetLabels | Cordon | Uncordon):
        yield Right("patch", "nodes")
    elif isinstance(action, EvictGpuPods):
        yield Right("create", "pods/eviction")
    elif isinstance(action, RestartDaemonSet):
        yield Right("patch", "daemonsets", "apps", action.namespace)
    elif isinstance(action, RestartPluginPod):
        yield Right("delete", "pods", "", action.namespace)


def _merged(rights: Iterable[Right]) -> Iterator[str]:
    """As rules of a Role: the verbs of a resource together, resources with the same verbs in one rule."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.namespace), []).append(right.verb)
    together: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, namespace), found in verbs.items():
        together.setdefault((namespace, group, tuple(found)), []).append(resource)
    for (namespace, group, found_verbs), plurals in together.items():
        listed = [", ".join(f'"{item}"' for item in items) for items in (plurals, found_verbs)]
        where = f" in namespace {namespace}" if namespace else ""
        yield f'apiGroups ["{group}"], resources [{listed[0]}], verbs [{listed[1]}]{where}'
