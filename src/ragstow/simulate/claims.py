"""Claims of pods that come from manifests, as controllers would make them: volumes and devices.

Three controllers are played, each only as far as placement needs it: the PersistentVolume controller for classes that bind at
once, the ephemeral-volume controller, and the resource-claim controller. Volumes that wait for their first pod are left to the
scheduler. Sources: pkg/controller/volume/persistentvolume, volume/ephemeral, resourceclaim; KEP-1698, KEP-4381.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ragstow import quantity
from ragstow.cluster.objects import KubeObject, Pod
from ragstow.cluster.snapshot import Snapshot
from ragstow.errors import InputError
from ragstow.scheduling.selectors import label_selector
from ragstow.simulate.defaulting import is_new
from ragstow.simulate.workload import made

Json = dict[str, Any]

_STORAGE = "storage.k8s.io"
_DRA = "resource.k8s.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimMaker:
    """Makes and binds claims on a growing snapshot.

    `snapshot` is the cluster with everything made so far, `assumptions` what had to be assumed (kept in order).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.assumptions: dict[str, None] = {}
        # Where pods run on claims that are not there, volumes were not saved; else a claim that is absent does not exist.
        known = bool(snapshot.of("PersistentVolumeClaim") or snapshot.of("PersistentVolume"))
        self._volumes_saved = known or not any(_mounts(pod) for pod in snapshot.pods if pod.node is not None)
        self._classes_saved = bool(snapshot.of("StorageClass", _STORAGE))

    def put(self, item: KubeObject) -> None:
        """Add an object; a new PersistentVolumeClaim is bound at once where its class says so."""
        if item.kind == "PersistentVolumeClaim" and item.group == "" and is_new(item.raw):
            self._claim(item)
        else:
            self.snapshot = self.snapshot.replace(put=[item])

    def put_all(self, items: Iterable[KubeObject]) -> None:
        """Add objects: classes and volumes before the claims that may use them."""
        later: list[KubeObject] = []
        plain: list[KubeObject] = []
        for item in items:
            (later if item.kind == "PersistentVolumeClaim" and is_new(item.raw) else plain).append(item)
        if plain:
            self.snapshot = self.snapshot.replace(put=plain)
        self._classes_saved = self._classes_saved or bool(self.snapshot.of("StorageClass", _STORAGE))
        for item in later:
            self.put(item)

    def for_pod(self, pod: Json) -> Json:
        """The pod with what its claims need: ephemeral volume claims and resource claims made, names filled in."""
        meta: Json = pod["metadata"]
        meta.setdefault("uid", f"simulated-{meta['namespace']}-{meta['name']}")
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            if volume.get("ephemeral"):
                self._ephemeral(pod, volume)
            elif volume.get("persistentVolumeClaim"):
                self._existing(meta["namespace"], str(volume["persistentVolumeClaim"].get("claimName")))
        self._devices(pod)
        return pod

    # --- volumes ---

    def _claim(self, item: KubeObject) -> None:
        raw = copy.deepcopy(dict(item.raw))
        spec: Json = raw.setdefault("spec", {})
        if "storageClassName" not in spec and (default := self._default_class()) is not None:
            spec["storageClassName"] = default.name
        name = spec.get("storageClassName") or ""
        storage_class = self.snapshot.get("StorageClass", name, group=_STORAGE) if name else None
        if storage_class is None and not self._classes_saved:
            self.assumptions["storage classes are not in the data: new claims are taken as bound, wherever the pod goes"] = None
            self._provision(raw)
            return
        if storage_class is not None and storage_class.raw.get("volumeBindingMode") == "WaitForFirstConsumer":
            self.snapshot = self.snapshot.replace(put=[made(raw)])
            return
        volume = self._matching(raw)
        if volume is not None:
            self._bind(raw, volume)
        elif storage_class is not None and storage_class.raw.get("provisioner") != _NO_PROVISIONER:
            self.assumptions[
                f"class {name} provisions at once, before the pod is placed: the zone of its volumes is chance, none is assumed"
            ] = None
            self._provision(raw)
        else:
            self.snapshot = self.snapshot.replace(put=[made(raw)])

    def _default_class(self) -> KubeObject | None:
        marked = [item for item in self.snapshot.of("StorageClass", _STORAGE) if item.annotations.get(_DEFAULT_CLASS) == "true"]
        return max(marked, key=lambda item: (item.created or "", item.name), default=None)

    def _matching(self, claim: Json) -> KubeObject | None:
        """The smallest free volume that fits, by name on a tie."""
        spec = claim["spec"]
        wanted = _storage((spec.get("resources") or {}).get("requests"))
        selector = label_selector(spec["selector"]) if spec.get("selector") else None
        fits: list[tuple[int, str, KubeObject]] = []
        for volume in self.snapshot.of("PersistentVolume"):
            body = volume.raw.get("spec") or {}
            if spec.get("volumeName") and spec["volumeName"] != volume.name:
                continue
            reference = body.get("claimRef")
            if reference is not None and (
                (reference.get("namespace"), reference.get("name"))
                != (claim["metadata"]["namespace"], claim["metadata"]["name"])
            ):
                continue
            size = _storage(body.get("capacity"))
            if (
                size >= wanted
                and (body.get("storageClassName") or "") == (spec.get("storageClassName") or "")
                and (body.get("volumeMode") or "Filesystem") == (spec.get("volumeMode") or "Filesystem")
                and set(spec.get("accessModes") or ()) <= set(body.get("accessModes") or ())
                and (selector is None or selector.matches(volume.labels))
            ):
                fits.append((size, volume.name, volume))
        return min(fits, key=lambda item: item[:2])[2] if fits else None

    def _provision(self, claim: Json) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        volume = made(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"simulated-{meta['namespace']}-{meta['name']}"},
                "spec": {
                    "capacity": dict((spec.get("resources") or {}).get("requests") or {}),
                    "accessModes": spec.get("accessModes") or [],
                    "storageClassName": spec.get("storageClassName") or "",
                },
            }
        )
        self._bind(claim, volume)

    def _bind(self, claim: Json, volume: KubeObject) -> None:
        meta = claim["metadata"]
        claim["spec"]["volumeName"] = volume.name
        meta["annotations"] = {**(meta.get("annotations") or {}), **_BOUND}
        claim["status"] = {"phase": "Bound"}
        raw = copy.deepcopy(dict(volume.raw))
        raw["spec"]["claimRef"] = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta.get("uid") or ""}
        raw["status"] = {"phase": "Bound"}
        self.snapshot = self.snapshot.replace(put=[made(claim), made(raw)])

    def _existing(self, namespace: str, name: str) -> None:
        """A claim that is not in the data, where volumes were not saved, is taken as bound."""
        if self._volumes_saved or self.snapshot.get("PersistentVolumeClaim", name, namespace) is not None:
            return
        self.assumptions["volumes are not in the data: existing claims are taken as bound, usable on every node"] = None
        self._provision(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1"}}},
            }
        )

    def _ephemeral(self, pod: Json, volume: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        name = f"{meta['name']}-{volume.get('name')}"
        if self.snapshot.get("PersistentVolumeClaim", name, meta["namespace"]) is not None:
            return
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        self._claim(
            made(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        **(template.get("metadata") or {}),
                        "name": name,
                        "namespace": meta["namespace"],
                        "ownerReferences": [_pod_owner(meta)],
                    },
                    "spec": copy.deepcopy(dict(template.get("spec") or {})),
                }
            )
        )

    # --- devices ---

    def _devices(self, pod: Json) -> None:
        """A ResourceClaim for every claim that comes from a template and has none yet."""
        meta = pod["metadata"]
        wanted = (pod.get("spec") or {}).get("resourceClaims") or ()
        status: Json = pod.get("status") or {}
        named = {str(item.get("name")) for item in status.get("resourceClaimStatuses") or ()}
        statuses = list(status.get("resourceClaimStatuses") or ())
        for item in wanted:
            template_name = item.get("resourceClaimTemplateName")
            if not template_name or str(item.get("name")) in named:
                continue
            template = self.snapshot.get("ResourceClaimTemplate", str(template_name), meta["namespace"], group=_DRA)
            if template is None:
                continue  # the scheduler waits for it, and says so
            body: Json = copy.deepcopy(dict(template.raw.get("spec") or {}))
            name = f"{meta['name']}-{item.get('name')}"
            while self.snapshot.get("ResourceClaim", name, meta["namespace"], group=_DRA) is not None:
                name += "-next"  # the claim of a pod of the same name that is about to be replaced
            self.snapshot = self.snapshot.replace(
                put=[
                    made(
                        {
                            "apiVersion": template.api_version,
                            "kind": "ResourceClaim",
                            "metadata": {
                                **(body.get("metadata") or {}),
                                "name": name,
                                "namespace": meta["namespace"],
                                "uid": f"simulated-{meta['namespace']}-{name}",
                                "ownerReferences": [_pod_owner(meta)],
                            },
                            "spec": body.get("spec") or {},
                        }
                    )
                ]
            )
            statuses.append({"name": item.get("name"), "resourceClaimName": name})
        if statuses:
            pod["status"] = {**status, "resourceClaimStatuses": statuses}


def copied_claims(snapshot: Snapshot, pod: Pod, again: Json) -> tuple[Json, list[KubeObject]]:
    """The claims that a recreated pod gets in place of its predecessor's generated ones, and the pod with their names.

    A claim made from a template is made anew (here from the old claim's spec: the template may be gone).
    """
    fresh: list[KubeObject] = []
    statuses: list[Json] = []
    meta = again["metadata"]
    meta["uid"] = f"simulated-{meta['namespace']}-{meta['name']}"
    for item in pod.status.get("resourceClaimStatuses") or ():
        old = snapshot.get("ResourceClaim", str(item.get("resourceClaimName")), pod.namespace, group=_DRA)
        if old is None:
            continue
        name = f"{meta['name']}-{item.get('name')}"
        fresh.append(
            made(
                {
                    "apiVersion": old.api_version,
                    "kind": "ResourceClaim",
                    "metadata": {
                        "name": name,
                        "namespace": pod.namespace,
                        "uid": f"simulated-{pod.namespace}-{name}",
                        "ownerReferences": [_pod_owner(meta)],
                    },
                    "spec": copy.deepcopy(dict(old.raw.get("spec") or {})),
                }
            )
        )
        statuses.append({"name": item.get("name"), "resourceClaimName": name})
    if statuses:
        again["status"] = {"resourceClaimStatuses": statuses}
    return again, fresh


def _mounts(pod: Pod) -> bool:
    return any(isinstance(item, Mapping) and item.get("persistentVolumeClaim") for item in pod.spec.get("volumes") or ())


def _pod_owner(meta: Mapping[str, Any]) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}


def _storage(amounts: Mapping[str, Any] | None) -> int:
    try:
        return quantity.parse((amounts or {}).get("storage") or 0).value
    except InputError:
        return 0
