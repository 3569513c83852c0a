"""A MIG layout is accepted and does not do what it says: no card has the profile, a count of 0, a filter that matches nothing.

What
    In mig-parted's file a layout asks for a profile that no card has, sets a profile to 0 beside others, filters by a PCI id without 0x,
    or asks one card for more slices than fit on it.

Why
    The first is applied with success and creates nothing; the second is applied, and the later check never matches it; the third
    matches no card; the last fails on the node, after the GPU stack has been stopped.

Fix
    Use the names and counts that the card offers (nvidia-smi mig -lgip); write filters as 0x<device>10DE.

References
    - NVIDIA mig-parted: api/spec/v1, pkg/mig/config
    - NVIDIA MIG user guide: supported profiles

Fires (lint): no card has this profile
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]
          small: [{devices: all, mig-enabled: true, mig-devices: {1g.7gb: 7}}]

Quiet (lint): one does
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]
          small: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]

Fires (lint): more slices than any card holds
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]
          big: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 2}}]

Quiet (lint): what one holds
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: mig, namespace: gpu-operator}
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled: [{devices: all, mig-enabled: false}]
          big: [{devices: all, mig-enabled: true, device-filter: "0x233010DE", mig-devices: {3g.40gb: 1, 1g.10gb: 3}}]
"""

from __future__ import annotations

from collections.abc import Iterator

from ragstow.facts.mig import Geometry
from ragstow.rules.manifests import LintContext
from ragstow.rules.model import Evidence, Finding, Fix, ObjectRef
from ragstow.rules.plugin_texts import mig_texts
from ragstow.rules.rule import Rule
from ragstow.sharing import miglayout, migparted
from ragstow.sharing.migparted import Entry


class MigLayoutIneffective(Rule):
    """See the page above."""

    cause = "mig-layout-ineffective"
    severity = "medium"
    needs = frozenset({"manifest"})

    def lint(self, context: LintContext) -> Iterator[Finding]:
        """One finding for each layout and reason."""
        mig = context.facts.mig
        geometries = [found for name in mig.geometries if (found := mig.geometry(name)) is not None]
        for manifest, config in mig_texts(context):
            read = migparted.read(config.text)
            if isinstance(read, migparted.Failure):
                continue
            for name, entries in read.layouts.items():
                for text in dict.fromkeys(text for entry in entries for text in _wrong(entry, geometries)):
                    ref = ObjectRef.of(config.map)
                    yield self.finding(
                        f"{ref}: layout {name} {text}",
                        "mig-parted reads it without complaint; the cards do not get the slices that it says.",
                        Fix(
                            "Use profiles and counts that the card offers (nvidia-smi mig -lgip), and PCI ids as 0x<device>10DE."
                        ),
                        (ref,),
                        evidence=(Evidence(text, ref, f"data[{config.key}].mig-configs.{name}"),),
                        file=manifest.file,
                        line=manifest.line("data", config.key),
                    )


def _wrong(entry: Entry, geometries: list[Geometry]) -> Iterator[str]:
    filters = [entry.device_filter] if isinstance(entry.device_filter, str) else list(entry.device_filter or ())
    for item in filters:
        if item and not item.lower().startswith("0x"):
            yield f"filters by {item}, which lacks 0x and matches no card"
    wanted = entry.mig_devices or {}
    zero = [profile for profile, count in wanted.items() if count == 0]
    if zero and len(wanted) > len(zero):
        yield f"sets {zero[0]} to 0 beside others: it is applied, and then never found to be"
    unknown = [profile for profile, count in wanted.items() if count and not any(g.profile(profile) for g in geometries)]
    for profile in unknown:
        yield f"asks for {profile}, a profile that no card has: it succeeds and creates nothing"
    counts = {profile: count for profile, count in wanted.items() if count}
    able = [geometry for geometry in geometries if all(geometry.profile(profile) for profile in counts)]
    if counts and not unknown and able and not any(_fits(geometry, counts) for geometry in able):
        shown = " + ".join(f"{count} x {profile}" for profile, count in counts.items())
        yield f"asks one card for {shown}, which no card can hold"


def _fits(geometry: Geometry, counts: dict[str, int]) -> bool:
    names = {profile: geometry.profile(profile) for profile in counts}
    return miglayout.fits(geometry, {found.name: counts[profile] for profile, found in names.items() if found is not None})
