"""The RagService document as a person writes it: fields, types, meaning, defaults in words, examples.

These classes are the schema: the JSON Schema, the CRD and `ragstow explain spec.<field>` are made from them. They check shapes
and numbers one by one; what depends on several fields or on facts is in `checks`, what an absent field becomes in `defaults`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from ragstow.errors import InputError
from ragstow.quantity import Quantity, parse

API_VERSION = "ragstow.dev/v1alpha1"
KIND = "RagService"

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ENV_NAME = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"

INT_OR_STRING: dict[str, Any] = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _quantity(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a Kubernetes quantity such as 500m, 4 or 16Gi")
    try:
        amount = parse(value)
    except InputError as error:
        raise ValueError(f"{error.message}; such as 500m, 4 or 16Gi") from None
    if amount.nano <= 0:
        raise ValueError("must be more than zero")
    return amount


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a number such as 500k, 5M or 5000000")
    try:
        amount = parse(value)
    except InputError:
        raise ValueError("must be a number such as 500k, 5M or 5000000") from None
    if amount.nano <= 0:
        raise ValueError("must be more than zero")
    return amount.value


Amount = Annotated[Quantity, BeforeValidator(_quantity), WithJsonSchema(INT_OR_STRING)]
LargeCount = Annotated[int, BeforeValidator(_count), WithJsonSchema(INT_OR_STRING)]
Positive = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=DNS_LABEL)]
Word = Annotated[str, Field(min_length=1)]
AnyObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]

Role = Literal["llm", "embedder", "reranker", "vector-store", "ingest", "gateway"]
Isolation = Literal["none", "memory", "fault"]
SharingWord = Literal["auto", "exclusive", "time-slicing", "mps", "mig", "dra"]

Sharing = Annotated[
    list[SharingWord],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto"], "type": "string"},
                {"items": {"enum": list(get_args(SharingWord))[1:], "type": "string"}, "minItems": 1, "type": "array"},
            ]
        }
    ),
]


def described(meaning: str, default: str = "", *, example: Any = None, required: bool = False) -> Any:
    """A field with its meaning, its default in words and an example, all of which `explain` and the schemas show."""
    extra: dict[str, Any] = {"x-default": default} if default else {}
    examples = None if example is None else [example]
    if required:
        return Field(description=meaning, examples=examples, json_schema_extra=extra)
    return Field(default=None, description=meaning, examples=examples, json_schema_extra=extra)


class Shape(BaseModel):
    """A mapping of the document: camelCase names, nothing unknown, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, protected_namespaces=())


class FootprintShape(Shape):
    """Memory that was measured, for servers that ragstow cannot sum."""

    memory_mib: Annotated[int, Field(ge=1, alias="memoryMiB")] = described(
        "What nvidia-smi shows per card at its peak, in MiB.", example=3600, required=True
    )
    cards: Positive | None = described("Cards of one replica.", "1", example=1)


class CacheShape(Shape):
    """A volume that keeps model files (or the data of a store) between starts."""

    size: Amount = described("Size of the volume.", example="40Gi", required=True)
    storage_class: Word | None = described("StorageClass.", "the cluster's default", example="local-path")
    access_mode: Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] | None = described(
        "Access mode; with ReadWriteOnce each replica gets a claim of its own.", "ReadWriteOnce", example="ReadWriteMany"
    )


class EnvShape(Shape):
    """An environment variable as in a Kubernetes container."""

    name: Annotated[str, Field(pattern=ENV_NAME)] = described("Its name.", example="VLLM_LOGGING_LEVEL", required=True)
    value: str | None = described("Its value.", example="INFO")
    value_from: AnyObject | None = described(
        "A Kubernetes EnvVarSource instead of a value.", example={"secretKeyRef": {"name": "keys", "key": "api"}}
    )


class SecretKeyShape(Shape):
    """A key of a Secret; its content is never read."""

    name: Word = described("Name of the Secret.", example="hugging-face", required=True)
    key: Word = described("Key inside it.", example="token", required=True)


class TolerationShape(Shape):
    """A Kubernetes toleration."""

    key: Word | None = described("Taint key; without it, every taint.", example="dedicated")
    operator: Literal["Exists", "Equal"] | None = described("How key and value are compared.", "Equal", example="Exists")
    value: str | None = described("Taint value.", example="rag")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = described(
        "Taint effect.", "every effect", example="NoSchedule"
    )
    toleration_seconds: int | None = described("How long a NoExecute taint is borne.", "for ever", example=300)


class ComponentShape(Shape):
    """One part of the service, run as one Deployment or StatefulSet."""

    name: Name = described("Name; a DNS label, unique in the service.", example="llm", required=True)
    role: Role = described("What it does in the service.", example="llm", required=True)
    engine: Word | None = described(
        "What serves it.", "by role: vllm for an llm, tei for embedder and reranker, qdrant for a vector-store", example="vllm"
    )
    version: Annotated[str, Field(pattern=r"^v?[0-9][0-9A-Za-z.+_-]*$")] | None = described(
        "Version of the engine; sizing depends on it.",
        "the version in the tag of `image`, else the newest that the facts know",
        example="0.19.0",
    )
    image: Word | None = described(
        "Container image.",
        "the engine's own for the card and version; required for gateway and ingest",
        example="registry.example/vllm:1",
    )
    model: Word | None = described(
        "Hugging Face name of the model, or a local folder with its config.json (starting with ./, ../ or /).",
        "none; required for an llm, embedder or reranker, unless `footprint` is given",
        example="my-org/my-model",
    )
    model_name: Word | None = described(
        "What the engine is told to load where `model` is a local folder: a hub name, or a path inside the container.",
        "`_name_or_path` of config.json",
        example="my-org/my-finetune",
    )
    model_config_: AnyObject | None = Field(
        default=None,
        alias="modelConfig",
        description="The model's config.json itself, for models outside the facts.",
        json_schema_extra={"x-default": "read from the folder that `model` names, where it names one"},
    )
    quantization: Word | None = described(
        "Precision of the weights: none, fp8, fp8-block, int8, awq, gptq, mxfp4, nvfp4 or bitsandbytes.",
        "that of the checkpoint",
        example="fp8",
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = described(
        "Precision of what is not quantised.", "that of the checkpoint; float16 in place of float32", example="bfloat16"
    )
    kv_cache_dtype: Word | None = described(
        "Precision of the KV cache: auto, fp8, fp8_e4m3, fp8_e5m2.", "auto: as `dtype`", example="fp8"
    )
    tensor_parallel: Positive | None = described("Cards of one node that one replica is cut over.", "1", example=2)
    replicas: Positive | None = described("Pods.", "1", example=2)
    context: Positive | None = described(
        "Tokens of one request, question and answer together.", "8192, or less where the model ends before", example=8192
    )
    concurrency: Positive | None = described(
        "Requests of full length that one replica serves at once.", "16 for an llm, 8 for embedder and reranker", example=16
    )
    max_batch_tokens: Positive | None = described(
        "Tokens that the engine computes in one step.", "the engine's own for the card", example=8192
    )
    args: list[str] | None = described("Arguments appended to the engine's as they are.", "none", example=["--enforce-eager"])
    env: list[EnvShape] | None = described(
        "Environment variables.", "none", example=[{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}]
    )
    footprint: FootprintShape | None = described(
        "Memory that you measured; ragstow then sums nothing.",
        "none: summed from model and engine",
        example={"memoryMiB": 3600},
    )
    gpu: Literal["required", "preferred", "never"] | None = described(
        "Whether it gets a GPU.", "required for model servers, never for the others", example="never"
    )
    cpu: Amount | None = described("Processors.", "by role (facts/roles.yaml)", example="4")
    memory: Amount | None = described(
        "Host memory.", "by role (facts/roles.yaml); a vector-store from vectors x dimensions", example="16Gi"
    )
    cache: CacheShape | None = described("Volume for model files or data.", "none", example={"size": "40Gi"})
    port: Annotated[int, Field(ge=1, le=65535)] | None = described(
        "Port that it listens on.", "the engine's; 8080 for gateway and ingest", example=8000
    )
    vectors: LargeCount | None = described("Vectors that the store keeps.", "unknown", example="5M")
    dimensions: Positive | None = described("Numbers in a vector.", "the hidden size of the embedder's model", example=1024)
    isolation: Isolation | None = described(
        "What no neighbour on the same card may do to it: none: nothing promised; memory: nobody else can take its GPU memory; "
        "fault: a neighbour's crash or hang cannot reach it.",
        "that of the service",
        example="fault",
    )


class PlacementShape(Shape):
    """Where things may go."""

    products: list[Word] | None = described(
        "Allowed values of the label nvidia.com/gpu.product, without suffixes that sharing adds.",
        "every product",
        example=["a value that kubectl get nodes -L nvidia.com/gpu.product shows"],
    )
    sharing: Sharing | None = described("Allowed sharing modes.", "auto: all of them", example=["exclusive", "mig"])
    together: list[list[Name]] | None = described(
        "Groups: replica i of each member sits on one card, for i up to the smallest replica count.",
        "none",
        example=[["embedder", "reranker"]],
    )
    apart: list[list[Name]] | None = described(
        "Groups: no two pods of different members on one card; a group of one: its replicas are on different cards.",
        "none",
        example=[["llm", "embedder"]],
    )
    survive: Literal["none", "node"] | None = described(
        "node: whichever node is lost, after rescheduling every component has a replica running.", "none", example="node"
    )
    max_cards: Positive | None = described("Most cards that the service may use.", "no limit", example=4)
    node_selector: dict[str, str] | None = described("Labels that nodes must have.", "none", example={"pool": "rag"})
    tolerations: list[TolerationShape] | None = described(
        "Tolerations beside those for the taints of usable GPU nodes, which are added by themselves.",
        "none",
        example=[{"key": "dedicated"}],
    )


class SpecShape(Shape):
    """The service."""

    components: Annotated[list[ComponentShape], Field(min_length=1)] = described(
        "The parts of the service.",
        example=[{"name": "llm", "role": "llm", "model": "my-org/my-model"}],
        required=True,
    )
    isolation: Isolation | None = described(
        "What no neighbour on the same card may do to a component, where that says nothing itself.", "memory", example="memory"
    )
    placement: PlacementShape | None = described("Where things may go.", "anywhere", example={"sharing": "auto"})
    image_pull_secrets: list[Word] | None = described("Names of Secrets for pulling images.", "none", example=["registry"])
    model_token_secret: SecretKeyShape | None = described(
        "Secret with the token for gated models.", "none", example={"name": "hugging-face", "key": "token"}
    )


class MetadataShape(BaseModel):
    """Kubernetes metadata; only name and namespace count."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    name: Name = described("Name of the service; a DNS label.", example="support", required=True)
    namespace: Name | None = described("Namespace of everything that is rendered.", "default", example="rag")
    annotations: dict[str, str] | None = described("Annotations.", "none")


class DocumentShape(BaseModel):
    """The whole document."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)

    api_version: Literal["ragstow.dev/v1alpha1"] = described("Version of this format.", required=True)
    kind: Literal["RagService"] = described("Kind of this document.", required=True)
    metadata: MetadataShape = described("Kubernetes metadata.", required=True)
    spec: SpecShape = described("What is wanted.", required=True)
    status: AnyObject | None = described("Written by the operator; ignored.")
