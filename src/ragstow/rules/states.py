"""Pods that run with GPUs, for rules that compare a manifest with what works already."""

from __future__ import annotations

from ragstow.cluster.objects import Pod
from ragstow.rules.context import Context
from ragstow.rules.engines import is_device


def gpu_holders(context: Context) -> tuple[Pod, ...]:
    """Pods that run and hold a GPU device, those of the GPU stack left out."""
    return tuple(
        state.pod
        for state in context.states.in_state("running")
        if not context.stack.roles(state.pod)
        and any(is_device(name) and count for name, count in context.requests(state.pod).items())
    )
