"""All rules, by id. A module in `catalog` with one `Rule` subclass is a rule; nothing else has to be edited."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ragstow.rules import catalog
from ragstow.rules.page import Page, parse
from ragstow.rules.rule import Rule


@cache
def names() -> tuple[str, ...]:
    """The ids of all rules, sorted; imports none of them."""
    return tuple(sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(catalog.__path__)))


@cache
def get(name: str) -> Rule:
    """The rule with this id; KeyError where there is none."""
    if name not in names():
        raise KeyError(name)
    module = import_module(f"{catalog.__name__}.{name.replace('-', '_')}")
    classes = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and item.__module__ == module.__name__ and issubclass(item, Rule)
    ]
    if len(classes) != 1:
        raise TypeError(f"{module.__name__} must define exactly one rule, not {len(classes)}")
    return classes[0]()


def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by id."""
    return tuple(get(name) for name in names())


@cache
def page(name: str) -> Page:
    """The page of a rule."""
    module = import_module(f"{catalog.__name__}.{name.replace('-', '_')}")
    return parse(module.__doc__ or "")
