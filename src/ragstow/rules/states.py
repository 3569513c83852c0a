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


def serves(context: Context, pod: Pod) -> bool:
    """Whether a pod is known to be ready, by the status of each container: what it complains about it can do without."""
    state = context.states.of(pod)
    mine = [container for container in state.containers if not container.init] if state is not None else []
    return state is not None and state.state == "running" and bool(mine) and all(container.ready for container in mine)
