"""Defaults and where they come from; a normalised service written out normalises to itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstow.facts import load as load_facts
from ragstow.spec import load, load_text, normalise, to_document
from ragstow.spec.model import GIVEN, SHARING_MODES
from ragstow.spec.problems import near
from support import ROOT

FACTS = load_facts()
NEWEST = next(row.newest for row in FACTS.engines.rows if row.name == "vllm")
EXAMPLES = sorted((ROOT / "examples").glob("*/service*.yaml"))

SHORT = """
apiVersion: ragstow.dev/v1alpha1
kind: RagService
metadata: {name: support, namespace: rag}
spec:
  components:
  - {name: llm, role: llm, model: qwen/qwen2.5-7b-instruct}
  - {name: embedder, role: embedder, model: BAAI/bge-m3, replicas: 2}
  - {name: vectors, role: vector-store, vectors: 5M}
  - {name: gateway, role: gateway, image: "registry.example/rag-gateway:1.4"}
"""


def test_the_short_form_is_enough() -> None:
    service = load_text(SHORT, FACTS)
    llm, embedder, vectors, gateway = service.components
    assert (service.name, service.namespace, service.isolation) == ("support", "rag", "memory")
    assert (llm.engine, llm.model, llm.quantization, llm.dtype) == ("vllm", "Qwen/Qwen2.5-7B-Instruct", "none", "bfloat16")
    assert (llm.tensor_parallel, llm.replicas, llm.context, llm.concurrency, llm.gpu) == (1, 1, 8192, 16, "required")
    assert llm.version == NEWEST
    assert (embedder.engine, embedder.dtype, embedder.replicas) == ("tei", "float16", 2)
    assert (vectors.engine, vectors.gpu, vectors.vectors, vectors.dimensions) == ("qdrant", "never", 5_000_000, 1024)
    assert str(vectors.memory) == "30Gi"
    assert (gateway.engine, gateway.gpu, gateway.port) == (None, "never", 8080)
    assert service.placement.sharing == SHARING_MODES
    assert not service.placement.sharing_given


def test_every_value_knows_where_it_came_from() -> None:
    llm, embedder, vectors, _ = load_text(SHORT, FACTS).components
    assert embedder.origins["replicas"] == GIVEN
    assert embedder.given("replicas")
    assert not llm.given("replicas")
    assert "newest" in llm.origins["version"]
    assert "1.5" in vectors.origins["memory"]
    assert all(llm.origins.values())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_come_back_from_their_own_document(path: Path) -> None:
    service = load(path, FACTS)
    document = to_document(service)
    again = normalise(json.loads(json.dumps(document)), FACTS)
    assert again == service
    assert json.dumps(to_document(again)) == json.dumps(document)


def test_contexts_end_where_the_model_ends() -> None:
    text = SHORT.replace("BAAI/bge-m3", "BAAI/bge-large-en-v1.5")
    embedder = load_text(text, FACTS).components[1]
    assert embedder.context == 512
    assert embedder.origins["context"] == "the end of the model"


def test_the_version_is_read_from_the_tag_of_an_image() -> None:
    text = SHORT.replace("instruct}", 'instruct, image: "registry.example/vllm-openai:v0.11.2-cu129"}')
    llm = load_text(text, FACTS).components[0]
    assert llm.version == "0.11.2"
    assert llm.origins["version"] == "the tag of the image"
    latest = load_text(text.replace(":v0.11.2-cu129", ":latest"), FACTS).components[0]
    assert latest.version == NEWEST


def test_aliases_of_precisions_get_their_name() -> None:
    text = SHORT.replace("instruct}", "instruct, quantization: bnb, kvCacheDtype: fp8}")
    llm = load_text(text, FACTS).components[0]
    assert (llm.quantization, llm.kv_cache_dtype) == ("bitsandbytes", "fp8")


def test_a_footprint_needs_no_model_and_carries_its_cards() -> None:
    text = SHORT.replace(
        "model: qwen/qwen2.5-7b-instruct", "engine: nim, image: my/nim:1.2, footprint: {memoryMiB: 36000, cards: 2}"
    )
    llm = load_text(text, FACTS).components[0]
    assert llm.footprint is not None
    assert (llm.footprint.memory_mib, llm.footprint.cards, llm.tensor_parallel) == (36000, 2, 2)
    assert llm.gpu == "required"


def test_nulls_are_absent_fields_and_duplicate_keys_are_noted() -> None:
    text = SHORT.replace("replicas: 2", "replicas: null, args: ~") + "  isolation: none\n  isolation: fault\n"
    service = load_text(text, FACTS)
    assert service.components[1].replicas == 1
    assert service.isolation == "fault"
    assert any("isolation" in note for note in service.notes)


def test_a_local_model_is_read_and_carried_in_the_document(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12288,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "model_type": "qwen3",
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "rope_scaling": None,
        "transformers_version": "4.51.0",
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    text = SHORT.replace("qwen/qwen2.5-7b-instruct", "./mine, modelName: my-org/mine, context: 16384")
    service = load_text(text, FACTS, folder=tmp_path)
    llm = service.components[0]
    assert llm.model == "my-org/mine"
    assert llm.model_config is not None
    assert "transformers_version" not in llm.model_config
    assert normalise(to_document(service), FACTS) == service


def test_the_same_document_gives_the_same_bytes_whatever_the_order_of_its_keys() -> None:
    document = to_document(load_text(SHORT, FACTS))
    shuffled = json.loads(json.dumps(document, sort_keys=True))
    assert json.dumps(to_document(normalise(shuffled, FACTS))) == json.dumps(document)


def test_a_hint_does_not_take_another_word_for_a_slip() -> None:
    assert near("zone", ["none", "node"]) == ""
    assert near("nodes", ["none", "node"]) == "did you mean node?"
    assert near("ndoe", ["none", "node"]) == "did you mean node?"
    assert near("None", ["none", "node"]) == "did you mean none?"
