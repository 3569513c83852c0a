"""The names in a component looked up in the facts: engine, model, precision. Reads a local model's config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragstow.errors import InputError, InputErrors
from ragstow.facts import Facts
from ragstow.facts.engines import Engine, RoleDefaults
from ragstow.facts.model_config import KEPT, from_config
from ragstow.facts.models import Model
from ragstow.spec.document import ComponentShape
from ragstow.spec.problems import Where, near

_MODEL_ROLES = ("llm", "embedder", "reranker")


@dataclass(frozen=True, slots=True)
class Known:
    """A component with what its names mean; None where a name is absent or wrong (and reported)."""

    index: int
    shape: ComponentShape
    role: RoleDefaults
    engine: Engine | None
    model_name: str | None
    model_config: Mapping[str, Any] | None
    model: Model | None

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where it stands in the document."""
        return ("spec", "components", self.index)

    @property
    def needs_model(self) -> bool:
        """Whether it cannot be sized without a model."""
        serves = self.shape.role in _MODEL_ROLES and (self.engine is None or self.engine.needs_model)
        return serves and self.shape.footprint is None

    @property
    def gpu(self) -> Literal["required", "preferred", "never"]:
        """Whether it gets a GPU: as it says, else as its engine needs; a footprint means a GPU."""
        if self.shape.gpu is not None:
            return self.shape.gpu
        if self.shape.footprint is not None:
            return "required"
        return self.engine.gpu if self.engine is not None else self.role.gpu


def look_up(
    index: int, shape: ComponentShape, facts: Facts, where: Where, folder: Path | None
) -> tuple[Known, list[InputError]]:
    """What a component's names mean, and what is wrong with them.

    Args:
        index: its place in the list of the document.
        shape: the component.
        facts: where names are looked up.
        where: for the places of errors.
        folder: from where a local model's folder is reached (None: local models are not read).
    """
    errors: list[InputError] = []
    path = ("spec", "components", index)
    role = facts.engines.roles[shape.role]
    engine = _engine(shape, role, facts, where, path, errors)
    name = shape.model
    config: Mapping[str, Any] | None = shape.model_config_
    if name is not None and is_local(name):
        name, config = _local(shape, name, where, path, folder, errors)
    model = None
    if config is not None and name is not None:
        try:
            model = from_config(name, config, _model_role(shape.role))
        except InputErrors as found:
            errors += [where.error(item.code, (*path, "model"), item.message) for item in found.errors]
    elif name is not None:
        model = facts.models.find(name)
        if model is None and shape.footprint is None and not errors:
            alike = facts.models.near(name)
            hint = f"did you mean {' or '.join(alike[:2])}? " if alike else ""
            hint += "else give the folder of its config.json (model: ./folder) or footprint: {memoryMiB: ...}"
            errors.append(where.error("model-unknown", (*path, "model"), f"model {name!r} is not in the facts", hint))
    return Known(index, shape, role, engine, model.id if model is not None else name, config, model), errors


def is_local(name: str) -> bool:
    """Whether a model's name is a folder of the user rather than a hub name."""
    return name.startswith(("./", "../", "/", "~"))


def _engine(
    shape: ComponentShape, role: RoleDefaults, facts: Facts, where: Where, path: tuple[str | int, ...], errors: list[InputError]
) -> Engine | None:
    name = shape.engine or role.engine
    if name is None:
        return None
    engine = facts.engines.find(name)
    serves = [row.name for row in facts.engines.for_role(shape.role)]
    if engine is None:
        everywhere = [row.name for row in facts.engines.rows]
        hint = near(name, serves) or near(name, everywhere) or f"for {shape.role}: {', '.join(serves)}"
        errors.append(where.error("engine-unknown", (*path, "engine"), f"engine {name!r} is not in the facts", hint))
    elif shape.role not in engine.roles:
        hint = f"for {shape.role}: {', '.join(serves)}" if serves else f"a {shape.role} has an image and no engine"
        said = f"{engine.title} serves {', '.join(engine.roles)}, not a {shape.role}"
        errors.append(where.error("engine-role", (*path, "engine"), said, hint))
    return engine


def _local(
    shape: ComponentShape,
    name: str,
    where: Where,
    path: tuple[str | int, ...],
    folder: Path | None,
    errors: list[InputError],
) -> tuple[str | None, Mapping[str, Any] | None]:
    at = (*path, "model")
    if folder is None:
        hint = "give its content as modelConfig, and the name as model"
        errors.append(where.error("model-local", at, f"{name} is a folder of another machine", hint))
        return None, None
    file = (folder / Path(name).expanduser()).resolve()
    file = file if file.suffix == ".json" else file / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not text"
        said = f"cannot read {name}/config.json: {reason}" if file.name == "config.json" else f"cannot read {name}: {reason}"
        errors.append(where.error("model-local", at, said, "model: names a folder with the config.json of the model"))
        return None, None
    except ValueError:
        errors.append(where.error("model-local", at, f"{name}: config.json is no JSON"))
        return None, None
    if not isinstance(config, dict):
        errors.append(where.error("model-local", at, f"{name}: config.json is no mapping"))
        return None, None
    loads = shape.model_name or config.get("_name_or_path")
    if not isinstance(loads, str) or not loads or (shape.model_name is None and is_local(loads)):
        hint = "modelName: my-org/my-model, or a path inside the container"
        errors.append(where.error("model-name", at, f"what should the engine load? {name} is a folder of this machine", hint))
        loads = name.rstrip("/").rpartition("/")[2]
    return loads, kept(config)


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config.json that matter for memory, sorted, nested ones too."""
    found: dict[str, Any] = {}
    for key in sorted(config):
        if key in KEPT and config[key] is not None:
            value = config[key]
            found[key] = kept(value) if key == "text_config" and isinstance(value, Mapping) else value
            if key == "vision_config":
                found[key] = {}
    return found


def _model_role(role: str) -> Literal["llm", "embedder", "reranker"]:
    if role == "embedder":
        return "embedder"
    return "reranker" if role == "reranker" else "llm"
