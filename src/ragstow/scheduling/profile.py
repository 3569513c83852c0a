"""A KubeSchedulerConfiguration document as profiles: which plugins run at which point, with which weights and arguments.

Source: pkg/scheduler/apis/config/v1 (default_plugins.go, mergePlugins; defaults.go) and framework/runtime/framework.go
(expandMultiPointPlugins). Only what changes decisions is read. Extenders and plugins that are not kube-scheduler's own cannot
be simulated: they are named as assumptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstow.errors import InputErrors
from ragstow.scheduling.policycheck import problems
from ragstow.scheduling.registry import POINTS, default_order, default_weights, known_names
from ragstow.scheduling.release import Release

Point = str
"""The name of an extension point as in the configuration, one of `registry.POINTS`."""

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Profile:
    """One scheduler's profile. `enabled` gives the plugin names per point, in calling order; `weights` those of the scorers.

    `percentage` is percentageOfNodesToScore, 0 for adaptive.
    """

    scheduler_name: str
    enabled: Mapping[Point, tuple[str, ...]]
    weights: Mapping[str, int]
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    percentage: int = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """All profiles by scheduler name, and what of the document could not be followed."""

    profiles: Mapping[str, Profile]
    assumptions: tuple[str, ...] = ()


def default_profile(release: Release, scheduler_name: str = DEFAULT_SCHEDULER) -> Profile:
    """The release's default profile."""
    return _profile({"schedulerName": scheduler_name}, release, 0)


def configuration(document: Mapping[str, Any] | None, release: Release) -> Configuration:
    """The configuration that a document describes; without one, the default profile alone.

    Raises:
        InputErrors: the document is of another kind or version, or a field of it cannot be.
    """
    if document is None:
        return Configuration({DEFAULT_SCHEDULER: default_profile(release)})
    errors = problems(document)
    if errors:
        raise InputErrors(errors)
    percentage = int(document.get("percentageOfNodesToScore") or 0)
    listed: Sequence[Mapping[str, Any]] = document.get("profiles") or [{}]
    made = [_profile(raw, release, percentage) for raw in listed]
    return Configuration({profile.scheduler_name: profile for profile in made}, tuple(_assumptions(document, listed)))


def _assumptions(document: Mapping[str, Any], profiles: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for extender in document.get("extenders") or ():
        yield f"extender {extender.get('urlPrefix', '')} is not called: it may refuse or prefer other nodes"
    known = known_names()
    foreign: dict[str, None] = {}
    for profile in profiles:
        for lists in (profile.get("plugins") or {}).values():
            for item in (lists or {}).get("enabled") or ():
                if item.get("name") not in known:
                    foreign[str(item.get("name"))] = None
    for name in foreign:
        yield f"plugin {name} is not one of kube-scheduler's own: what it refuses or prefers is not simulated"


def _profile(raw: Mapping[str, Any], release: Release, percentage: int) -> Profile:
    asked: Mapping[str, Any] = raw.get("plugins") or {}
    order, weights = default_order(release), dict(default_weights())
    multi, multi_weights = _merge(order, asked.get("multiPoint"))
    weights.update(multi_weights)
    enabled: dict[Point, tuple[str, ...]] = {}
    for point in POINTS:
        lists = asked.get(point) or {}
        disabled = {str(item.get("name")) for item in lists.get("disabled") or ()}
        own = [str(item.get("name")) for item in lists.get("enabled") or ()]
        if point == "score":
            weights.update(
                {str(item["name"]): int(item["weight"]) for item in lists.get("enabled") or () if item.get("weight")}
            )
        inherited = [] if "*" in disabled else [name for name in multi if name not in disabled or name in own]
        # Upstream order: plugins of the default list that are enabled again here, then the rest of the list, then new ones.
        again = [name for name in own if name in inherited]
        rest = [name for name in inherited if name not in own]
        enabled[point] = (*again, *rest, *(name for name in own if name not in inherited))
    arguments = {str(item.get("name")): item.get("args") or {} for item in raw.get("pluginConfig") or ()}
    own_percentage = raw.get("percentageOfNodesToScore")
    return Profile(
        scheduler_name=str(raw.get("schedulerName") or DEFAULT_SCHEDULER),
        enabled=enabled,
        weights=weights,
        args=arguments,
        percentage=percentage if own_percentage is None else int(own_percentage),
    )


def _merge(order: Sequence[str], lists: Mapping[str, Any] | None) -> tuple[list[str], dict[str, int]]:
    """The default list with a custom plugin set laid over it (mergePluginSet)."""
    given = lists or {}
    disabled = {str(item.get("name")) for item in given.get("disabled") or ()}
    own = {str(item.get("name")): item for item in given.get("enabled") or ()}
    weights = {name: int(item["weight"]) for name, item in own.items() if item.get("weight")}
    kept = [] if "*" in disabled else [name for name in order if name not in disabled or name in own]
    return [*kept, *(name for name in own if name not in kept)], weights
