"""Names and labels of everything that is rendered.

Objects are named <service>-<component>, so two services can share a namespace and no Service can be called like an engine
(a Service called `vllm` would set VLLM_PORT in every pod of the namespace). Selectors use only the two ragstow.dev labels,
since a Deployment's selector can never change.
"""

from __future__ import annotations

import hashlib

from ragstow.render.model import Item

SERVICE = "ragstow.dev/service"
COMPONENT = "ragstow.dev/component"
UNIT = "ragstow.dev/unit"
POOL = "ragstow.dev/pool"
PLAN = "ragstow.dev/plan"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
MIG_CONFIG = "nvidia.com/mig.config"
NO_IMAGE = "image.not.given/by-the-service:none"
HOSTNAME = "kubernetes.io/hostname"

# A StatefulSet's pods carry <name>-<hash of 10> in a label of at most 63 characters.
LONGEST = 52


def join(*parts: str) -> str:
    """The parts joined by dashes, cut to what every kind allows; a cut name keeps a hash of the whole."""
    name = "-".join(part for part in parts if part)
    if not name[:1].isalpha():
        name = f"rag-{name}"  # names of Services begin with a letter
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: LONGEST - 7].rstrip('-')}-{digest}"


def of(item: Item, suffix: str = "") -> str:
    """The name of a component's objects."""
    return join(item.service.name, item.name, suffix)


def selector(item: Item) -> dict[str, str]:
    """The labels that select all pods of a component, whatever unit they are in."""
    return {SERVICE: item.service.name, COMPONENT: item.name}


def service_labels(service: str) -> dict[str, str]:
    """Labels of an object that belongs to the service as a whole."""
    return {"app.kubernetes.io/part-of": service, "app.kubernetes.io/managed-by": "ragstow", SERVICE: service}


def labels(item: Item) -> dict[str, str]:
    """All labels of a component's objects: the recommended ones of Kubernetes, then ours."""
    engine = item.component.engine or item.component.role
    return {
        "app.kubernetes.io/name": engine,
        "app.kubernetes.io/instance": of(item),
        **({"app.kubernetes.io/version": item.component.version} if item.component.version else {}),
        "app.kubernetes.io/component": item.component.role,
        "app.kubernetes.io/part-of": item.service.name,
        "app.kubernetes.io/managed-by": "ragstow",
        **selector(item),
    }
