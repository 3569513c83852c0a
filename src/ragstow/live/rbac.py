"""The roles that reading, verifying and applying need, as RBAC objects: least privilege, nothing with a wildcard.

`read` lists what `kinds` names and reads logs of pods. `verify` adds exec, port-forward and what is behind Services. `apply`
adds what a plan changes.
Each role holds the ones before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ragstow.live.kinds import WANTED

Level = Literal["read", "verify", "apply"]
LEVELS: tuple[Level, ...] = ("read", "verify", "apply")

_API = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "patch")

Rule = tuple[str, tuple[str, ...], tuple[str, ...]]
"""API group, resources, verbs."""

_VERIFY: tuple[Rule, ...] = (
    # An exec over a websocket is a GET for older servers and needs create from newer ones.
    ("", ("pods/exec", "pods/portforward"), ("create", "get")),
    # What is behind a Service.
    ("discovery.k8s.io", ("endpointslices",), ("get", "list")),
)
_CAP_TEST: tuple[Rule, ...] = (("", ("pods",), ("create", "delete")),)
"""The throw-away pods of `verify --cap-test`."""
_WORKLOADS: tuple[Rule, ...] = (
    ("", ("configmaps", "persistentvolumeclaims", "services"), _WRITE),
    ("apps", ("deployments", "statefulsets"), _WRITE),
    ("policy", ("poddisruptionbudgets",), _WRITE),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), _WRITE),
)
_NODES: tuple[Rule, ...] = (
    ("", ("nodes",), ("patch",)),
    ("", ("pods/eviction",), ("create",)),
    # A device plugin that must start anew is deleted; its DaemonSet brings it back.
    ("", ("pods",), ("delete",)),
    ("", ("configmaps",), _WRITE),
    # An undo takes away a namespace that was made for the service, if nothing else is in it.
    ("", ("namespaces",), ("create", "delete")),
    # A plugin from a static manifest gets a DaemonSet of ours beside it.
    ("apps", ("daemonsets",), _WRITE),
    ("coordination.k8s.io", ("leases",), ("create", "delete", "get", "patch")),
    ("nvidia.com", ("clusterpolicies",), ("patch",)),
)


def documents(
    level: Level, *, subjects: Sequence[Mapping[str, str]], namespace: str | None = None, cap_test: bool = False
) -> list[dict[str, Any]]:
    """The role of a level and its binding.

    Args:
        level: read, verify or apply.
        subjects: who gets it, as `subject` makes them.
        namespace: for apply and the cap test: workloads may be written there and nowhere else.
        cap_test: also what `verify --cap-test` needs, to create and delete pods.
    """
    name = f"ragstow-{level}"
    rules = _read_rules()
    confined: tuple[Rule, ...] = ()
    if level in ("verify", "apply"):
        rules = [*rules, *_VERIFY]
    if level == "apply":
        rules = [*rules, *_NODES]
        if namespace is None:
            rules = [*rules, *_WORKLOADS]
        else:
            confined = _WORKLOADS
    if cap_test:
        if namespace is None:
            rules = [*rules, *_CAP_TEST]
        else:
            confined = (*confined, *_CAP_TEST)
    made = [
        {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": _merged(rules)},
        _binding("ClusterRoleBinding", "ClusterRole", {"name": name}, subjects),
    ]
    if confined and namespace is not None:
        meta = {"name": name, "namespace": namespace}
        made.append({"apiVersion": f"{_API}/v1", "kind": "Role", "metadata": meta, "rules": _merged(confined)})
        made.append(_binding("RoleBinding", "Role", meta, subjects))
    return made


def subject(text: str) -> dict[str, str] | None:
    """user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME as a subject of a binding; None where it is none of them."""
    kind, _, name = text.partition(":")
    if kind in ("user", "group") and name:
        return {"apiGroup": _API, "kind": kind.capitalize(), "name": name}
    namespace, _, account = name.partition("/")
    if kind == "serviceaccount" and namespace and account:
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return None


def _read_rules() -> list[Rule]:
    groups: dict[str, list[str]] = {}
    for wanted in WANTED:
        groups.setdefault(wanted.group, []).append(wanted.plural)
    return [
        *((group, tuple(sorted(plurals)), _READ) for group, plurals in sorted(groups.items())),
        ("", ("pods/log",), ("get",)),
    ]


def _merged(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as RBAC writes them: the verbs of a resource together, resources with the same verbs in one rule."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for group, resources, allowed in rules:
        for resource in resources:
            verbs.setdefault((group, resource), set()).update(allowed)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed_verbs in sorted(verbs.items()):
        together.setdefault((group, tuple(sorted(allowed_verbs))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in together.items()
    ]


def _binding(kind: str, role: str, meta: Mapping[str, str], subjects: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_API}/v1",
        "kind": kind,
        "metadata": dict(meta),
        "roleRef": {"apiGroup": _API, "kind": role, "name": meta["name"]},
        "subjects": [dict(item) for item in subjects],
    }
