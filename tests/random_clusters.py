"""Small random clusters that use every rule the scheduler has, from a seed: for tests that need more than recordings."""

from __future__ import annotations

import random
from typing import Any

Raw = dict[str, Any]

_ZONES = ("za", "zb", "zc")
_APPS = ("a", "b", "c")
_NAMESPACES = ("default", "rag", "batch")
_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_PORTS = ({"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080, "hostIP": "10.0.0.1"})


class Maker:
    """Draws objects. `plain` leaves out affinity between pods and spreading; `images` and `priorities` can be switched off."""

    def __init__(self, seed: int, *, plain: bool = False, images: bool = True, priorities: bool = True) -> None:
        self.draw = random.Random(seed)
        self.plain, self.images, self.priorities = plain, images, priorities

    def cluster(self, nodes: int, running: int, arrivals: int) -> list[Raw]:
        """Nodes, then pods that run, then pods that wait, then what they refer to."""
        made = [self.node(f"n{i:02d}") for i in range(nodes)]
        made += [self.pod(f"r{i:03d}", node=f"n{self.draw.randrange(nodes):02d}") for i in range(running)]
        made += [self.pod(f"p{i:03d}", nominate=nodes) for i in range(arrivals)]
        return made + list(self.others())

    def node(self, name: str) -> Raw:
        """One node: zones, tiers, taints, cards, images."""
        draw = self.draw
        labels = {_HOSTNAME: name, "tier": draw.choice(("gold", "silver")), "gen": str(draw.randrange(4))}
        if draw.random() < 0.85:
            labels[_ZONE] = draw.choice(_ZONES)
        amounts = {"cpu": draw.choice(("4", "8")), "memory": draw.choice(("8Gi", "16Gi")), "pods": draw.choice(("4", "20"))}
        if draw.random() < 0.5:
            amounts["nvidia.com/gpu"] = draw.choice(("1", "2", "4"))
        taints = (
            [{"key": "hard", "value": "x", "effect": draw.choice(("NoSchedule", "NoExecute"))}] if draw.random() < 0.2 else []
        )
        taints += [{"key": "soft", "value": "y", "effect": "PreferNoSchedule"}] if draw.random() < 0.3 else []
        sizes = {image: 200_000_000 * (i + 1) for i, image in enumerate(("i1:latest", "i2:latest"))}
        images = [{"names": [image], "sizeBytes": size} for image, size in sizes.items() if self.images and draw.random() < 0.4]
        spec: Raw = {"taints": taints}
        if draw.random() < 0.08:
            spec["unschedulable"] = True
        status = {"allocatable": amounts, "capacity": amounts, "images": images}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": status,
        }

    def pod(self, name: str, node: str | None = None, nominate: int = 0) -> Raw:
        """One pod; `nominate` is the number of nodes that it may be nominated to."""
        draw = self.draw
        app = draw.choice(_APPS)
        container: Raw = {"name": "c", "image": draw.choice(("i1", "i2", "i3")), "resources": {"requests": self.amounts()}}
        if draw.random() < 0.15:
            container["ports"] = [draw.choice(_PORTS)]
        spec: Raw = {"containers": [container], "priority": draw.choice((0, 0, 10, 100)) if self.priorities else 0}
        if draw.random() < 0.2:
            spec["initContainers"] = [{"name": "i", "image": "i3", "resources": {"requests": self.amounts()}}]
            if draw.random() < 0.5:
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if draw.random() < 0.15:
            spec["overhead"] = {"cpu": "50m", "memory": "64Mi"}
        if draw.random() < 0.4:
            spec["tolerations"] = [
                draw.choice(({"operator": "Exists"}, {"key": "hard", "operator": "Exists"}, {"key": "soft", "value": "y"}))
            ]
        if draw.random() < 0.2:
            spec["nodeSelector"] = {"tier": "gold"}
        affinity = self.affinity(app)
        if affinity:
            spec["affinity"] = affinity
        if not self.plain and draw.random() < 0.3:
            spec["topologySpreadConstraints"] = self.constraints(app)
        made: Raw = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": draw.choice(_NAMESPACES), "labels": {"app": app}},
            "spec": spec,
        }
        if draw.random() < 0.4:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{app}", "uid": app, "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
        if node is not None:
            spec["nodeName"] = node
            made["status"] = {"phase": "Running", "startTime": f"2026-01-{draw.randrange(1, 29):02d}T00:00:00Z"}
            if draw.random() < 0.1:
                made["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
        elif nominate and self.priorities and draw.random() < 0.1:
            made["status"] = {"nominatedNodeName": f"n{draw.randrange(nominate):02d}"}
        return made

    def amounts(self) -> Raw:
        """Requests of a container; entries may be missing or 0."""
        draw = self.draw
        asked: Raw = {}
        if draw.random() < 0.85:
            asked["cpu"] = draw.choice(("0", "250m", "500m", "1", "2"))
        if draw.random() < 0.85:
            asked["memory"] = draw.choice(("128Mi", "1Gi", "3Gi"))
        if draw.random() < 0.2:
            asked["nvidia.com/gpu"] = draw.choice(("1", "2"))
        return asked

    def affinity(self, app: str) -> Raw:
        """Node affinity, and affinity between pods unless the cluster is plain."""
        draw = self.draw
        made: Raw = {}
        terms = [
            {"matchExpressions": [{"key": "gen", "operator": draw.choice(("Gt", "Lt")), "values": ["1"]}]},
            {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": list(_ZONES[:2])}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{draw.randrange(8):02d}"]}]},
        ]
        if draw.random() < 0.2:
            chosen = draw.sample(terms, draw.choice((1, 2)))
            made["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": chosen}}
        if draw.random() < 0.2:
            preferred = [{"weight": draw.randrange(1, 100), "preference": term} for term in terms[:2]]
            made.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        for side in () if self.plain else ("podAffinity", "podAntiAffinity"):
            if draw.random() < 0.12:
                made.setdefault(side, {})["requiredDuringSchedulingIgnoredDuringExecution"] = [self.term(app)]
            if draw.random() < 0.15:
                weighted = [{"weight": draw.randrange(1, 100), "podAffinityTerm": self.term(app)}]
                made.setdefault(side, {})["preferredDuringSchedulingIgnoredDuringExecution"] = weighted
        return made

    def term(self, app: str) -> Raw:
        """A pod affinity term, with or without namespaces."""
        draw = self.draw
        labels = {"app": draw.choice((app, *_APPS))}
        made: Raw = {"labelSelector": {"matchLabels": labels}, "topologyKey": draw.choice((_HOSTNAME, _ZONE, "tier"))}
        kind = draw.random()
        if kind < 0.2:
            made["namespaces"] = list(draw.sample(_NAMESPACES, 2))
        elif kind < 0.35:
            made["namespaceSelector"] = draw.choice(({}, {"matchLabels": {"team": "rag"}}))
        return made

    def constraints(self, app: str) -> list[Raw]:
        """One or two spread constraints."""
        draw = self.draw
        made = []
        for key in draw.sample((_HOSTNAME, _ZONE, "tier"), draw.choice((1, 2))):
            item: Raw = {
                "maxSkew": draw.choice((1, 2)),
                "topologyKey": key,
                "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": app}},
            }
            if draw.random() < 0.3:
                item["nodeTaintsPolicy"] = "Honor"
            if draw.random() < 0.3:
                item["nodeAffinityPolicy"] = "Ignore"
            if item["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.3:
                item["minDomains"] = 3
            made.append(item)
        return made

    def others(self) -> list[Raw]:
        """Namespaces, ReplicaSets, a Service, disruption budgets."""
        draw = self.draw
        made: list[Raw] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
            for name in _NAMESPACES
        ]
        for namespace in _NAMESPACES:
            for app in _APPS[:2]:
                meta = {"name": f"rs-{app}", "namespace": namespace, "uid": app}
                spec = {"selector": {"matchLabels": {"app": app}}}
                made.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec})
            budget = {"selector": {"matchLabels": {"app": draw.choice(_APPS)}}, "minAvailable": 1}
            status = {"disruptionsAllowed": draw.randrange(3)}
            meta = {"name": "budget", "namespace": namespace}
            made.append(
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget, "status": status}
            )
        meta = {"name": "svc", "namespace": "rag"}
        made.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": "c"}}})
        return made
