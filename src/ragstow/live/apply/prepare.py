"""What can be known before anything is touched: what an earlier plan left, what `apply` cannot do by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragstow.errors import InputError
from ragstow.live.apply import helm, nodes
from ragstow.live.apply.context import Run
from ragstow.live.apply.forward import PLUGIN_SECONDS, by_hand, by_hand_done
from ragstow.live.apply.lease import Lease
from ragstow.live.apply.model import ApplyStopped, Options, Step
from ragstow.live.apply.patience import Patience
from ragstow.live.client import ApiClient
from ragstow.render.actions import (
    Action,
    ByHand,
    DeleteObject,
    EvictGpuPods,
    HelmUpgrade,
    Procedure,
    RestartPluginPod,
    WaitMigState,
    WaitNodeOffers,
)
from ragstow.render.names import SERVICE

_LEFT_OVER = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "ResourceClaim"),
)
"""Kinds of a service's objects that a later plan may not have any more; claims of volumes stay with their data."""


def leftovers(client: ApiClient, procedure: Procedure) -> tuple[DeleteObject, ...]:
    """The objects of the service in the cluster that the procedure does not have: those of an earlier plan."""
    ask = Patience()
    wanted = {
        (str(item["kind"]), str(item["metadata"]["name"]))
        for action in procedure.actions
        if (item := getattr(action, "manifest", None)) is not None and item["metadata"].get("namespace") == procedure.namespace
    }
    made: list[DeleteObject] = []
    for api_version, kind in _LEFT_OVER:
        resource = ask(client.resources).of(api_version, kind)
        if resource is None:
            continue
        found: list[dict[str, Any]] = ask(
            lambda resource=resource: list(  # type: ignore[misc]  # bound now
                client.list(resource, procedure.namespace, labels=f"{SERVICE}={procedure.service}")
            )
        )
        made += [
            DeleteObject(api_version, kind, procedure.namespace, str(item["metadata"]["name"]))
            for item in found
            if (kind, str(item["metadata"]["name"])) not in wanted and not item["metadata"].get("ownerReferences")
        ]
    return tuple(made)


def with_leftovers(procedure: Procedure, found: Sequence[DeleteObject]) -> Procedure:
    """The procedure that also deletes those, before nodes change: their pods may hold the cards that are needed."""
    if not found:
        return procedure
    at = procedure.configuration
    actions = (*procedure.actions[:at], *found, *procedure.actions[at:])
    return replace(procedure, actions=actions, workloads=procedure.workloads + len(found))


def needs_helm(client: ApiClient, procedure: Procedure) -> HelmUpgrade | None:
    """The upgrade that needs `helm` where that is not on PATH and nobody has made it yet."""
    if helm.available():
        return None
    going = _bare(client, procedure.service, procedure.namespace)
    return next(
        (action for action in procedure.actions if isinstance(action, HelmUpgrade) and not helm.already(going, action)), None
    )


def needs_person(client: ApiClient, procedure: Procedure) -> tuple[ByHand, ...]:
    """What a person must do on nodes before this procedure can be carried out."""
    going = _bare(client, procedure.service, procedure.namespace)
    return tuple(action for action in procedure.by_hand if not by_hand_done(going, action))


def limit_seconds(action: Action, options: Options) -> float:
    """When the run gives up on an action that happens to a node; 0 for those that do not wait."""
    own = {
        EvictGpuPods: nodes.EVICT_SECONDS,
        WaitMigState: nodes.MIG_SECONDS,
        WaitNodeOffers: nodes.OFFER_SECONDS,
        RestartPluginPod: PLUGIN_SECONDS,
    }.get(type(action), 0.0)
    return options.timeout_seconds if own and options.timeout_seconds is not None else own


def refuse_impossible(going: Run, procedure: Procedure) -> None:
    """Refuse what cannot be carried out to its end, before anything is touched.

    Raises:
        ApplyStopped: it needs a person on a node, or `helm` where that is not there.
    """
    found: list[ApplyStopped] = []
    for action in procedure.actions:
        if isinstance(action, ByHand) and not by_hand_done(going, action):
            found.append(by_hand(action))
        if isinstance(action, HelmUpgrade) and not helm.available() and not helm.already(going, action):
            found.append(helm.missing(action, ""))
    if found:
        # All at once, as a person has to do them; the hint and code are those of what is hardest to do.
        worst = next((error for error in found if error.code == "by-hand"), found[0])
        raise ApplyStopped(worst.code, "\n".join(error.message for error in found), hint=worst.hint)


def refuse_secrets(procedure: Procedure) -> None:
    """Refuse a Secret among the objects, since what is done is recorded.

    Raises:
        InputError: there is one.
    """
    for action in procedure.actions:
        manifest = getattr(action, "manifest", None)
        if manifest is not None and manifest.get("kind") == "Secret":
            raise InputError(
                "secret-in-procedure",
                f"Secret {manifest['metadata'].get('name')} is among the objects; what apply does is recorded, which "
                "a Secret must not be",
                hint="create it with kubectl, and leave it out of the folder",
            )


class _NoLease(Lease):
    def __init__(self) -> None:
        pass

    def check(self) -> None:
        pass


def _bare(client: ApiClient, service: str, namespace: str) -> Run:
    return Run(client, Patience(), Options(), _NoLease(), _silent, service, namespace)


def _silent(_: Step) -> None:
    pass
