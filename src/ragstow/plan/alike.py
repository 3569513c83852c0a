"""Nodes that are alike for what their cards can become: asked once, answered for all of them and for every what-if.

What `sharing` answers depends on cards, driver, plugin and labels of a node, of its name only where a text says it. So the
question is put for a node without a name, and the name filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import replace
from typing import Any, TypeVar

from ragstow.errors import Reason
from ragstow.sharing.host import Host

Memo = MutableMapping[Hashable, Any]
_NAMELESS = "\N{SYMBOL FOR NULL}"
_Answer = TypeVar("_Answer")
_FOR_READERS = frozenset({"nvidia.com/gfd.timestamp"})
"""Labels that differ from node to node and that nothing is decided by."""


def asked(memo: Memo, question: Hashable, host: Host, ask: Callable[[Host], _Answer | Reason]) -> _Answer | Reason:
    """What a question gives for a node, asked once for all that are alike.

    Args:
        memo: the answers so far; one for all questions on one set of facts.
        question: what is asked beside the node.
        host: the node.
        ask: gives the answer, which names the node only in the text of a refusal.
    """
    key = (question, _likeness(host))
    if key not in memo:
        memo[key] = ask(replace(host, name=_NAMELESS))
    answer: _Answer | Reason = memo[key]
    if isinstance(answer, Reason):
        return Reason(answer.code, answer.text.replace(_NAMELESS, host.name), answer.hint.replace(_NAMELESS, host.name))
    return answer


def _likeness(host: Host) -> Hashable:
    return (
        host.gpus,
        tuple(None if cut is None else tuple(sorted(cut.items())) for cut in host.cuts),
        (
            host.label_mib,
            host.driver,
            host.cuda,
            host.server,
            host.install,
            host.cloud.cloud if host.cloud is not None else None,
        ),
        (host.config, tuple(sorted(host.env.items())), host.args, host.named_configs, host.gfd, host.mig_manager),
        tuple(sorted(item for item in host.labels.items() if item[0] not in _FOR_READERS)),
        tuple(sorted(host.resources.items())),
    )
