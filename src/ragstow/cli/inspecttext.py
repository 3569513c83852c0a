"""What `inspect` prints for people: the answer first, then one line a node, then what it rests on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

from ragstow.cli import table
from ragstow.inventory.model import UNKNOWN_PRODUCT, Device, Inventory, LayoutGroup, NodeGpus, Range, ResourceUse

_SHOWN_NAMES = 12
_NODE_TAINTS = "node.kubernetes.io/"

Shown = Callable[[str], bool]
"""Whether a pod ("namespace/name") is to be shown."""


def summary(found: Inventory, room: int) -> list[str]:
    """ "N of M free" for each product."""
    if not found.totals:
        return [f"no GPU on {_count(len(found.nodes), 'node')}"]
    counts = {product: f"{number(totals.cards_free)} of {totals.cards} free" for product, totals in found.totals.items()}
    wide = max(map(len, counts.values()))
    lines: list[str] = []
    for product, count in counts.items():
        name = "cards of unknown product" if product == UNKNOWN_PRODUCT else product
        line = f"{count.ljust(wide)}  {name}, {_memory_of(found, product)}"
        slots = _slots_left(found, product)
        if slots and len(line) + len(slots) + 4 > room:
            lines.extend((line, *(f"{' ' * wide}  {part}" for part in table.wrap(slots, room - wide - 2))))
        else:
            lines.append(f"{line}  ({slots})" if slots else line)
    return lines


def _memory_of(found: Inventory, product: str) -> str:
    nodes_of = [node for node in found.nodes if (node.product or UNKNOWN_PRODUCT) == product and node.cards]
    sizes = sorted({node.memory_mib_per_card or 0 for node in nodes_of})
    return f"{' or '.join(map(gib, sizes))} each" if sizes and all(sizes) else "memory unknown"


def _slots_left(found: Inventory, product: str) -> str:
    """Slots where they are no whole cards, or where cordoned nodes make a difference."""
    slots = found.totals[product].slots
    words = []
    for name, total in slots.items():
        if total.total and (
            len([item for item in slots.values() if item.total]) > 1 or total.total != found.totals[product].cards
        ):
            words.append(f"{_short(name)} {total.free} of {total.total}")
    cordoned = sum(total.free - total.free_schedulable for total in slots.values())
    if cordoned:
        words.append(f"{cordoned} of the free on cordoned nodes")
    return ", ".join(words)


def nodes(found: Inventory, room: int, shown: Shown, *, wide: bool) -> list[str]:
    """One line a node that has GPUs, under its product; with `wide` its cards, holders and configuration below."""
    with_gpu = [node for node in found.nodes if node.sharing != "none"]
    head = ("NODE", "CARDS", "FREE", "SHARING", "FREE SLOTS", "MARKS")
    products = sorted({node.product or UNKNOWN_PRODUCT for node in with_gpu}, key=lambda name: (name == UNKNOWN_PRODUCT, name))
    rows: list[Sequence[str] | str] = []
    for product in products:
        rows.append(product if product != UNKNOWN_PRODUCT else "product unknown")
        for node in with_gpu:
            if (node.product or UNKNOWN_PRODUCT) == product:
                rows.append(_row(node))
                rows.extend(details_of(node, room, shown) if wide else ())
    lines = table.render(head, rows, room, indent="  ") if rows else []
    without = [node for node in found.nodes if node.sharing == "none"]
    plain = [node.name for node in without if not _marks(node)]
    marked = [f"{node.name} ({_marks(node)})" for node in without if _marks(node)]
    if without:
        lines.extend(_folded(f"{_count(len(without), 'node')} without GPU: ", _few([*plain, *marked]), room))
    return lines


def details_of(node: NodeGpus, room: int, shown: Shown) -> list[str]:
    """The cards of a node, who holds what, and what configures it."""
    lines: list[str] = []
    pad = "      "
    lines.extend(f"{pad}{_cards_of(group)}: {_cut(group)}" for group in node.layout)
    if node.sharing in ("dra", "hami", "kai"):
        lines.extend(f"{pad}{_device(device)}: {_holders(device, shown)}" for device in node.devices)
    for name, use in node.resources.items():
        if use.requested or use.capacity:
            head, held = f"{pad}{name} {use.free} of {use.allocatable} free", _held(use, shown)
            lines.extend(_folded(f"{head}, held by ", held, room) if held else [head])
    unhealthy = [
        f"{name}: {use.capacity - use.allocatable} of {use.capacity}"
        for name, use in node.resources.items()
        if use.capacity > use.allocatable
    ]
    if unhealthy:
        lines.append(f"{pad}not allocatable (unhealthy or held back): {', '.join(unhealthy)}")
    if node.driver or node.cuda:
        lines.append(f"{pad}driver {node.driver or 'unknown'}, up to CUDA {node.cuda or 'unknown'}")
    if node.allocators:
        lines.append(f"{pad}handed out by: {', '.join(node.allocators)}")
    if node.config is not None:
        lines.extend(_folded(f"{pad}plugin configuration: ", node.config.origin, room))
    return lines


def footnotes(found: Inventory, room: int) -> list[str]:
    """What is assumed rather than read, the nodes of one assumption together."""
    by_text: dict[str, list[str]] = {}
    for node in found.nodes:
        for text in node.assumed:
            by_text.setdefault(text, []).append(node.name)
    lines: list[str] = []
    for text, names in by_text.items():
        lines.extend(_folded(f"* {_few(names)}: ", text, room))
    nameless = [node.name for node in found.nodes if node.product is None and node.cards]
    if nameless:
        lines.extend(_folded(f"* {_few(nameless)}: ", f"nothing names the cards; --assume {nameless[0]}=PRODUCT does", room))
    return lines


def by_card(found: Inventory, room: int, shown: Shown) -> list[str]:
    """One line a card or slice."""
    rows = [
        (
            node.name,
            "?" if device.card is None else str(device.card),
            device.profile or device.kind,
            device.product or "unknown",
            _memory(device),
            _holders(device, shown),
        )
        for node in found.nodes
        for device in node.devices
    ]
    return table.render(("NODE", "CARD", "KIND", "PRODUCT", "MEMORY", "HELD BY"), rows, room) if rows else []


def by_pod(found: Inventory, room: int, shown: Shown) -> list[str]:
    """One line a pod that holds GPUs."""
    rows = []
    for node in found.nodes:
        for pod, what in sorted(holdings(node).items()):
            if shown(pod):
                rows.append((pod, node.name, ", ".join(what), node.product or "unknown", node.sharing))
    return table.render(("POD", "NODE", "HOLDS", "PRODUCT", "SHARING"), sorted(rows), room) if rows else []


def by_resource(found: Inventory, room: int, shown: Shown) -> list[str]:
    """One line a resource and node."""
    rows = [
        (name, node.name, str(use.capacity), str(use.allocatable), str(use.free), _held(use, shown))
        for node in found.nodes
        for name, use in node.resources.items()
    ]
    rows += [
        (
            "claims",
            node.name,
            str(len(node.devices)),
            str(len(node.devices)),
            str(sum(not device.holders for device in node.devices)),
            ", ".join(sorted(pod for pod in holdings(node) if shown(pod))),
        )
        for node in found.nodes
        if node.claims
    ]
    return table.render(("RESOURCE", "NODE", "CAPACITY", "ALLOCATABLE", "FREE", "HELD BY"), sorted(rows), room) if rows else []


def holdings(node: NodeGpus) -> dict[str, list[str]]:
    """Pod -> what it holds on the node, in words."""
    found: dict[str, list[str]] = {}
    for name, use in node.resources.items():
        for pod, amount in use.holders.items():
            found.setdefault(pod, []).append(f"{amount} {_short(name)}")
    for claim in node.claims:
        for pod in claim.pods:
            found.setdefault(pod, []).append(claim.device)
    return found


def _row(node: NodeGpus) -> Sequence[str]:
    sharing = node.sharing + (f" x{node.replicas}" if node.replicas else "") + ("*" if node.assumed else "")
    return (node.name, str(node.cards), number(node.cards_free), sharing, _free_slots(node), _marks(node))


def _free_slots(node: NodeGpus) -> str:
    words = [f"{_short(name)} {use.free}/{use.allocatable}" for name, use in node.resources.items() if use.capacity]
    if node.claims:
        free = sum(claim.claim is None for claim in node.claims)
        words.append(f"devices {free}/{len({claim.device for claim in node.claims})}")
    return ", ".join(words) or "none offered"


def _marks(node: NodeGpus) -> str:
    marks = []
    if node.ready is False:
        marks.append("NOT READY")
    if not node.schedulable:
        marks.append("cordoned")
    # What the plugin calls unhealthy, unless it is only the old name of slots that have another one now.
    offers = any(use.allocatable for use in node.resources.values())
    for name, use in node.resources.items():
        if use.allocatable < use.capacity and (use.allocatable or not offers):
            marks.append(f"{use.capacity - use.allocatable} of {use.capacity} {_short(name)} UNHEALTHY")
    # The node controller's own taints repeat what the first two marks say; NoSchedule is what a taint does by default.
    marks.extend(f"taint {taint.removesuffix(':NoSchedule')}" for taint in node.taints if not taint.startswith(_NODE_TAINTS))
    return ", ".join(marks)


def _device(device: Device) -> str:
    name = device.name or ("card ?" if device.card is None else f"card {device.card}")
    return f"{name} ({device.profile or device.kind}, {_memory(device)})"


def _memory(device: Device) -> str:
    if device.memory_mib is None:
        return "unknown"
    return f"{gib(device.memory_mib)} (facts)" if device.memory_of_facts else gib(device.memory_mib)


def _holders(device: Device, shown: Shown) -> str:
    if not device.known:
        return "not in the data"
    if not device.holders:
        return "free"
    pods = [pod for pod in device.holders if shown(pod)]
    return ", ".join(pods) or "held (not in this namespace)"


def _held(use: ResourceUse, shown: Shown) -> str:
    pods = [f"{pod} {amount}" if amount > 1 else pod for pod, amount in use.holders.items() if shown(pod)]
    hidden = len(use.holders) - len(pods)
    return ", ".join([*pods, *([f"{hidden} in other namespaces"] if hidden else [])])


def _cards_of(group: LayoutGroup) -> str:
    if group.cards is None:
        return _count(group.count, "card")
    return f"card {', '.join(map(str, group.cards))}"


def _cut(group: LayoutGroup) -> str:
    if group.mig is None:
        return "whole"
    return ", ".join(f"{count} x {profile}" for profile, count in group.mig.items()) or "MIG on, without instances"


def _folded(head: str, text: str, room: int) -> list[str]:
    """`head` and `text`, wrapped at blanks and indented from the second line on."""
    pad = " " * (len(head) - len(head.lstrip()) + 2)
    return textwrap.wrap(
        head.lstrip() + text,
        width=max(40, room),
        initial_indent=pad[2:],
        subsequent_indent=pad,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_SHOWN_NAMES])} and {more} more"


def number(value: int | Range) -> str:
    """ "3", or "2-4" where the API does not decide it."""
    return f"{value.min}-{value.max}" if isinstance(value, Range) else str(value)


def gib(mib: int) -> str:
    """MiB as GiB with one decimal."""
    return f"{mib / 1024:.1f} GiB"


def _short(resource: str) -> str:
    return resource.removeprefix("nvidia.com/")


def _count(amount: int, what: str) -> str:
    return f"{amount} {what}" if amount == 1 else f"{amount} {what}s"


VIEWS: Mapping[str, Callable[[Inventory, int, Shown], list[str]]] = {"card": by_card, "pod": by_pod, "resource": by_resource}
