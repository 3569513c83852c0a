"""Every mistake is reported at once, with file, line, field and hint, and none is a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstow.errors import InputError, InputErrors, RagstowError
from ragstow.facts import load as load_facts
from ragstow.spec import load, load_text

FACTS = load_facts()

HEAD = "apiVersion: ragstow.dev/v1alpha1\nkind: RagService\nmetadata: {name: support}\nspec:\n"
LLM = "  - {name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct}\n"
EMBEDDER = "  - {name: embedder, role: embedder, model: BAAI/bge-m3}\n"
RERANKER = "  - {name: reranker, role: reranker, model: BAAI/bge-reranker-v2-m3}\n"


def faults(text: str) -> list[RagstowError]:
    with pytest.raises((InputErrors, InputError)) as caught:
        load_text(text, FACTS, file="service.yaml")
    error = caught.value
    return list(error.errors) if isinstance(error, InputErrors) else [error]


def one(text: str) -> RagstowError:
    found = faults(text)
    assert len(found) == 1, [str(item) for item in found]
    return found[0]


def component(line: str) -> str:
    return f"{HEAD}  components:\n  - {{{line}}}\n"


def placement(line: str) -> str:
    return f"{HEAD}  components:\n{LLM}{EMBEDDER}{RERANKER}  - {{name: vectors, role: vector-store}}\n  placement: {{{line}}}\n"


@pytest.mark.parametrize(
    ("line", "field", "says", "hint"),
    [
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, replica: 2",
            "replica",
            "unknown field",
            "did you mean replicas?",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, maxbatchtokens: 2",
            "maxbatchtokens",
            "unknown",
            "maxBatchTokens",
        ),
        ("name: llm, role: lllm, model: Qwen/Qwen2.5-7B-Instruct", "role", "is not one of llm, embedder", "did you mean llm?"),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, engine: vlm",
            "engine",
            "not in the facts",
            "did you mean vllm?",
        ),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instuct", "model", "not in the facts", "Qwen/Qwen2.5-7B-Instruct"),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, engine: tei", "engine", "serves embedder", "for llm: vllm"),
        ("name: llm, role: llm", "model", "needs a model", "for example model: "),
        ("name: gate, role: gateway", "image", "needs an image", ""),
        ("name: LLM, role: llm, model: Qwen/Qwen2.5-7B-Instruct", "name", "not allowed", "DNS label"),
        ("role: llm, model: Qwen/Qwen2.5-7B-Instruct", "name", "is missing", "ragstow explain spec.components.name"),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, replicas: 0", "replicas", "at least 1, not 0", ""),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, context: -5", "context", "at least 1, not -5", ""),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, context: 40000", "context", "ends at 32768", "context: 32768"),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, replicas: two", "replicas", "whole number, not 'two'", ""),
        ('name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, replicas: "2"', "replicas", "whole number", "without quotes"),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, version: 0.19",
            "version",
            "must be text",
            'in quotes: "0.19"',
        ),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, memory: 16GB", "memory", "not a Kubernetes quantity", ""),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, cpu: 0", "cpu", "more than zero", ""),
        ("name: vectors, role: vector-store, vectors: 5 million", "vectors", "such as 500k, 5M", ""),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, tensorParallel: 3",
            "tensorParallel",
            "cannot be divided",
            "1, 2, 4, 7, 14",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, quantization: fp9",
            "quantization",
            "unknown",
            "did you mean fp8?",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, quantization: awq",
            "quantization",
            "16-bit checkpoint",
            "Qwen/Qwen2.5-7B-Instruct-AWQ",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct-AWQ, quantization: fp8",
            "quantization",
            "is awq",
            "leave it out",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, kvCacheDtype: fp7",
            "kvCacheDtype",
            "unknown",
            "did you mean fp8?",
        ),
        ("name: llm, role: llm, model: BAAI/bge-m3", "model", "is an encoder", "role: embedder"),
        ("name: llm, role: llm, model: deepseek-ai/DeepSeek-V4-Flash", "model", "cannot be summed", "footprint"),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, gpu: never", "gpu", "needs a GPU", "gpu: required"),
        ("name: rr, role: reranker, model: Qwen/Qwen3-Reranker-0.6B", "engine", "cross-encoders", "engine: vllm"),
        ("name: e, role: embedder, model: nvidia/NV-Embed-v2", "engine", "does not serve", "engine: vllm"),
        ("name: e, role: embedder, model: BAAI/bge-m3, tensorParallel: 2", "tensorParallel", "no such setting", "engine: vllm"),
        ("name: e, role: embedder, model: BAAI/bge-m3, quantization: fp8", "quantization", "no such setting", "leave it out"),
        ("name: nim, role: llm, engine: nim, footprint: {memoryMiB: 20000}", "image", "no image", "image:"),
        ("name: nim, role: llm, engine: nim, image: my/nim:1", "footprint", "cannot sum", "memoryMiB"),
        (
            "name: nim, role: llm, engine: nim, image: my/nim:1, footprint: {memoryMib: 9}",
            "memoryMib",
            "unknown field",
            "memoryMiB?",
        ),
        ("name: nim, role: llm, engine: nim, image: my/nim:1, footprint: {memoryMiB: 0}", "memoryMiB", "at least 1", ""),
        (
            "name: nim, role: llm, engine: nim, image: my/nim:1, footprint: {memoryMiB: 9, cards: 2}, tensorParallel: 4",
            "footprint",
            "tensorParallel 4",
            "",
        ),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, vectors: 5M", "vectors", "belongs to a vector-store", ""),
        ("name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, env: [{name: A}]", "env[0]", "either value or valueFrom", ""),
        (
            'name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, env: [{name: A, value: "1"}, {name: A, value: "2"}]',
            "env[1]",
            "given twice",
            "",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, env: [{name: A, value: yes}]",
            "value",
            "must be text",
            'quotes: "true"',
        ),
        ("name: llm, role: llm, model: ./nowhere", "model", "folder of another machine", "modelConfig"),
        ("name: llm, role: llm, model: my/own, modelConfig: {hidden_size: 4096}", "model", "no positive num_hidden_layers", ""),
        (
            "name: tables, role: vector-store, engine: pgvector",
            "env",
            "does not start without POSTGRES_PASSWORD",
            "secretKeyRef",
        ),
        (
            "name: tables, role: vector-store, engine: pgvector, replicas: 2, env: [{name: POSTGRES_PASSWORD, value: x}]",
            "replicas",
            "replicas of PostgreSQL with pgvector are no cluster",
            "replicas: 1",
        ),
        (
            "name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, cache: {size: 40Gi, accessMode: RWO}",
            "accessMode",
            "is not one of",
            "",
        ),
        (f"name: {'a' * 60}, role: llm, model: Qwen/Qwen2.5-7B-Instruct", "name", "too long", "at most"),
    ],
)
def test_mistakes_in_a_component(line: str, field: str, says: str, hint: str) -> None:
    error = next(item for item in faults(component(line)) if (item.place.field or "").endswith(field))
    assert says in error.message
    assert hint in error.hint
    assert error.place.file == "service.yaml"
    assert error.place.line == 6
    assert (error.place.field or "").startswith("spec.components[0]")
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("line", "field", "says", "hint"),
    [
        ("together: [[llm, embeder]]", "together[0]", "which is no component", "did you mean embedder?"),
        ("together: [[llm, embedder]], apart: [[embedder, llm]]", "apart[0]", "together and apart", "drop one"),
        ("together: [[llm, embedder], [embedder, reranker]], apart: [[llm, reranker]]", "apart[0]", "together and apart", ""),
        ("together: [[llm, vectors]]", "together[0]", "takes no GPU", ""),
        ("together: [[llm]]", "together[0]", "needs more components", "apart with one"),
        ("apart: [[llm, llm]]", "apart[0]", "names a component twice", ""),
        ("together: [[llm, embedder]], sharing: [exclusive]", "together[0]", "no second pod", "sharing mode"),
        ("sharing: [time-slicing]", "sharing", "wants isolation memory", "exclusive, mig, mps, dra"),
        ("sharing: [mgi]", "sharing[0]", "is not one of auto, exclusive", "did you mean mig?"),
        ("sharing: [auto, mig]", "sharing", "auto stands for all", ""),
        ("sharing: []", "sharing", "must not be empty", ""),
        ("survive: rack", "survive", "is not one of none, node", ""),
        ("maxCards: 0", "maxCards", "at least 1", ""),
        ("maxCards: 2, apart: [[llm, embedder, reranker]]", "maxCards", "at least 3 cards", ""),
        ("products: [NVIDIA-A100-SXM4-40G]", "products[0]", "not in the facts", "did you mean NVIDIA-A100-SXM4-40GB?"),
        ("products: [nvidia-l4]", "products[0]", "not in the facts", "did you mean NVIDIA-L4?"),
        ("products: [NVIDIA-L4-SHARED]", "products[0]", "suffix of sharing", "products: [NVIDIA-L4]"),
        ("products: [Accelerator]", "products[0]", "not in the facts", "gpus.csv"),
        ("produts: [a]", "produts", "unknown field", "did you mean products?"),
        ("nodeSelector: {gpu: true}", "gpu", "must be text", 'quotes: "true"'),
        ("tolerations: [{key: a, operator: Exist}]", "operator", "is not one of", "did you mean Exists?"),
    ],
)
def test_mistakes_across_components(line: str, field: str, says: str, hint: str) -> None:
    found = [item for item in faults(placement(line)) if (item.place.field or "").endswith(field)]
    assert found, [str(item) for item in faults(placement(line))]
    assert says in found[0].message
    assert hint in found[0].hint
    assert found[0].place.line == 10


def test_everything_is_reported_at_once_in_the_order_of_the_lines() -> None:
    text = (
        "apiVersion: ragstow.dev/v1\nkind: RagService\nmetadata: {name: Support}\nspec:\n  isolaton: memory\n  components:\n"
        "  - name: llm\n    role: llm\n    model: Qwen/Qwen2.5-7B-Instuct\n    replicas: 0\n"
        "  - name: llm\n    role: embedder\n    model: BAAI/bge-m3\n    engine: tie\n"
        "  placement:\n    together: [[llm, nobody]]\n"
    )
    found = faults(text)
    assert [item.place.line for item in found] == sorted(item.place.line or 0 for item in found)
    said = " | ".join(str(item) for item in found)
    for part in (
        "apiVersion",
        "did you mean isolation?",
        "DNS label",
        "did you mean Qwen/Qwen2.5-7B-Instruct",
        "at least 1",
        "did you mean tei?",
        "'nobody'",
    ):
        assert part in said, part


def test_a_name_that_could_not_be_read_is_no_second_mistake_where_it_is_used() -> None:
    text = (
        f"{HEAD}  components:\n{EMBEDDER}  - {{name: llm, role: llm, replicas: 0}}\n  placement: {{apart: [[llm, embedder]]}}\n"
    )
    assert not [item for item in faults(text) if "no component" in item.message]


def test_duplicate_names() -> None:
    error = one(f"{HEAD}  components:\n{LLM}{LLM}")
    assert error.code == "name-duplicate"
    assert (error.place.line, error.place.field) == (7, "spec.components[1].name")


def test_impossible_isolation_of_one_component() -> None:
    strict = "  - {name: llm, role: llm, model: Qwen/Qwen2.5-7B-Instruct, isolation: fault}\n"
    error = one(f"{HEAD}  components:\n{strict}{EMBEDDER}  placement: {{sharing: [mps]}}\n")
    assert error.code == "isolation-impossible"
    assert "mps gives memory" in error.message
    assert "exclusive, mig, dra" in error.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing in it"),
        ("# only a comment\n", "nothing in it"),
        ("just a text\n", "no RagService in it, only text"),
        ('{"apiVersion": "ragstow.dev/v1alpha1", "kind": "RagServ', "not valid YAML or JSON"),
        ("kind: RagService\nspec:\n\tcomponents: []\n", "not valid YAML or JSON"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "no RagService in it, but List"),
        ("kind: Deployment\n---\nkind: Service\n", "no RagService in it, but Deployment, Service"),
        ("kind: Ragservice\nspec: {}\n", "is not RagService"),
        ("[1, 2]\n", "no RagService in it"),
        ("kind: RagService\n---\nkind: RagService\n", "one RagService a file"),
        ("kind: RagService\nspec: 5\n", "must be a mapping"),
        ("kind: RagService\nspec: {components: {}}\n", "must be a list"),
        ("kind: RagService\nspec: {components: []}\n", "must not be empty"),
        ("kind: RagService\nspec: {components: [5, null]}\n", "must be a mapping"),
    ],
)
def test_files_that_are_no_service(text: str, says: str) -> None:
    assert any(says in item.message for item in faults(text)), [str(item) for item in faults(text)]


def test_tabs_are_named() -> None:
    assert "tabs" in one("kind: RagService\nspec:\n\tcomponents: []\n").hint


def test_a_large_file_is_refused_without_reading_it() -> None:
    error = one("x" * (50 * 2**20))
    assert error.code == "spec-too-large"
    assert "--from" in error.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    for path, code in (
        (tmp_path / "absent.yaml", "spec-unreadable"),
        (tmp_path, "spec-unreadable"),
        (tmp_path / "binary.yaml", "spec-binary"),
    ):
        with pytest.raises(InputError) as caught:
            load(path, FACTS)
        assert caught.value.code == code


def test_a_local_model_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for content, says in ((None, "cannot read"), ("{", "no JSON"), ("[]", "no mapping"), ("{}", "no positive hidden_size")):
        if content is not None:
            (tmp_path / "model" / "config.json").write_text(content)
        with pytest.raises(InputErrors) as caught:
            load_text(component("name: llm, role: llm, model: ./model, modelName: my/own"), FACTS, folder=tmp_path)
        assert any(says in item.message for item in caught.value.errors)
