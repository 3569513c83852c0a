"""What a rendered pod must and must not carry, by Kubernetes' and the vendors' rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ragstow import facts
from ragstow.render import render
from ragstow.render.flags import without
from ragstow.spec.model import EnvVar, Service
from render_plans import LLM, NO_GPU, SCENARIOS, Scenario, component, exclusive, got, mps_external, plan, research

FACTS = facts.load()


def objects(scenario: Scenario) -> tuple[dict[str, Any], ...]:
    return render(scenario.service, scenario.plan, FACTS).objects


def of_kind(scenario: Scenario, *kinds: str) -> dict[str, dict[str, Any]]:
    return {made["metadata"]["name"]: made for made in objects(scenario) if made["kind"] in kinds}


def workloads(scenario: Scenario) -> dict[str, dict[str, Any]]:
    return of_kind(scenario, "Deployment", "StatefulSet")


def pods(scenario: Scenario) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for workload in workloads(scenario).values():
        yield workload, workload["spec"]["template"]["spec"]


def has_gpu(pod: dict[str, Any]) -> bool:
    limits = pod["containers"][0]["resources"]["limits"]
    return bool(pod.get("resourceClaims")) or any(name.startswith("nvidia.com/") for name in limits)


@pytest.mark.parametrize("name", SCENARIOS)
def test_limits_equal_requests_so_that_every_pod_is_guaranteed(name: str) -> None:
    for _, pod in pods(SCENARIOS[name]()):
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["resources"]["requests"] == container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(container["resources"]["limits"])


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_gpu_pod_never_surges(name: str) -> None:
    for workload, pod in pods(SCENARIOS[name]()):
        if workload["kind"] == "Deployment" and has_gpu(pod):
            strategy = workload["spec"]["strategy"]
            assert strategy["type"] == "Recreate" or strategy["rollingUpdate"]["maxSurge"] == 0
            assert (strategy["type"] == "Recreate") == (workload["spec"]["replicas"] == 1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_service_variables_and_no_token_reach_a_pod(name: str) -> None:
    for _, pod in pods(SCENARIOS[name]()):
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", SCENARIOS)
def test_selectors_match_the_pods_and_no_pod_has_two_owners(name: str) -> None:
    made = list(workloads(SCENARIOS[name]()).values())
    for workload in made:
        wanted = workload["spec"]["selector"]["matchLabels"].items()
        matching = [other for other in made if wanted <= other["spec"]["template"]["metadata"]["labels"].items()]
        assert matching == [workload]
    for service in of_kind(SCENARIOS[name](), "Service").values():
        wanted = service["spec"]["selector"].items()
        assert any(wanted <= workload["spec"]["template"]["metadata"]["labels"].items() for workload in made)


@pytest.mark.parametrize("name", SCENARIOS)
def test_names_are_given_once_and_all_belong_to_the_namespace(name: str) -> None:
    scenario = SCENARIOS[name]()
    made = [(made["kind"], made["metadata"].get("namespace"), made["metadata"]["name"]) for made in objects(scenario)]
    assert len(made) == len(set(made))
    of_plugin = scenario.plan.cluster.plugin.namespace
    assert {namespace for _, namespace, _ in made} <= {scenario.service.namespace, of_plugin}


def test_read_write_once_with_two_replicas_is_a_claim_for_each() -> None:
    llm = workloads(exclusive())["support-llm"]
    assert llm["kind"] == "StatefulSet"
    [claim] = llm["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "40Gi"
    assert not of_kind(exclusive(), "PersistentVolumeClaim")


def test_read_write_many_is_one_claim_for_all() -> None:
    scenario = SCENARIOS["cloud"]()
    assert workloads(scenario)["docs-ocr"]["kind"] == "Deployment"
    assert of_kind(scenario, "PersistentVolumeClaim")["docs-ocr-models"]["spec"]["storageClassName"] == "filestore"


def test_a_store_without_a_size_gets_twice_its_raw_vectors() -> None:
    vectors = workloads(exclusive())["support-vectors"]
    # 5 million vectors of 1024 dimensions, 4 bytes each: 19.07 GiB.
    assert vectors["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "39Gi"


def test_replicas_of_a_store_find_the_first_one() -> None:
    vectors = workloads(SCENARIOS["cloud"]())["docs-vectors"]
    [container] = vectors["spec"]["template"]["spec"]["containers"]
    assert "docs-vectors-0.docs-vectors-peers:6335" in container["args"][0]
    assert vectors["spec"]["serviceName"] == "docs-vectors-peers"


def test_affinity_is_that_of_the_plan_and_the_pool_only_where_it_says_so() -> None:
    made = workloads(SCENARIOS["mig-operator"]())
    expressions = {
        name: made[name]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"][0]["matchExpressions"]
        for name in ("research-llm", "research-embedder")
    }
    assert expressions["research-llm"] == [
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
    ]
    assert expressions["research-embedder"] == [{"key": "ragstow.dev/pool", "operator": "In", "values": ["research"]}]


def test_tolerations_of_plan_and_user_once_each() -> None:
    pod = workloads(exclusive())["support-embedder"]["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "tolerations" not in workloads(exclusive())["support-gateway"]["spec"]["template"]["spec"]


def test_runtime_class_only_where_the_plan_says_so() -> None:
    made = workloads(exclusive())
    assert made["support-llm"]["spec"]["template"]["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in made["support-vectors"]["spec"]["template"]["spec"]


def test_the_image_fits_the_card() -> None:
    made = workloads(exclusive())
    image = made["support-embedder"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.endswith(":turing-1.9")


def test_a_pod_under_mps_leaves_shared_memory_to_the_plugin() -> None:
    made = workloads(mps_external())
    pod = made["notes-rewriter"]["spec"]["template"]["spec"]
    assert "/dev/shm" not in [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]


def test_replicas_that_may_share_a_card_start_one_after_the_other() -> None:
    assert workloads(mps_external())["notes-rewriter"]["spec"]["podManagementPolicy"] == "OrderedReady"


def test_tensor_parallel_gets_shared_memory_for_its_workers() -> None:
    pod = workloads(SCENARIOS["mig-operator"]())["research-llm"]["spec"]["template"]["spec"]
    [shm] = [volume for volume in pod["volumes"] if volume["name"] == "shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "6Gi"}
    args = pod["containers"][0]["args"]
    assert args[args.index("--tensor-parallel-size") + 1] == "2"
    assert args[args.index("--gpu-memory-utilization") + 1] == "0.92"


def test_start_up_allows_for_the_download_of_the_weights() -> None:
    probe = workloads(SCENARIOS["mig-operator"]())["research-llm"]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    weights_mib = 2 * int(50 * 0.6) * 1024
    assert probe["failureThreshold"] * probe["periodSeconds"] >= weights_mib / 20


def test_secrets_are_named_and_never_held() -> None:
    scenario = SCENARIOS["mig-operator"]()
    pod = workloads(scenario)["research-llm"]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    token = next(variable for variable in pod["containers"][0]["env"] if variable["name"] == "HF_TOKEN")
    assert token == {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}}
    assert not of_kind(scenario, "Secret")


def test_the_llm_waits_for_its_neighbours_but_not_for_ever() -> None:
    pod = workloads(SCENARIOS["time-slicing-chart"]())["notes-llm"]["spec"]["template"]["spec"]
    [wait] = pod["initContainers"]
    assert wait["args"][1:] == ["http://notes-embedder:8080/health", "http://notes-reranker:8080/health"]
    compile(wait["args"][0], "wait", "exec")
    assert "time.time() < end" in wait["args"][0]


def test_a_budget_only_for_what_has_a_second_replica() -> None:
    assert set(of_kind(exclusive(), "PodDisruptionBudget")) == {"support-llm", "support-embedder", "support-gateway"}


def test_a_service_called_like_an_engine_sets_no_variable_of_it() -> None:
    before = exclusive()
    service = replace(before.service, name="vllm")
    names = set(of_kind(Scenario(service, replace(before.plan, service="vllm")), "Service"))
    assert "vllm" not in names
    assert "vllm-llm" in names


def test_long_names_are_cut_and_stay_different() -> None:
    long = "a-service-with-a-very-long-name-that-nobody-would-type"
    before = exclusive()
    made = objects(Scenario(replace(before.service, name=long), replace(before.plan, service=long)))
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in made]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 52 for _, name in names)


def test_a_name_that_begins_with_a_digit_is_a_valid_service() -> None:
    before = exclusive()
    made = of_kind(Scenario(replace(before.service, name="3d"), replace(before.plan, service="3d")), "Service")
    assert all(name[0].isalpha() for name in made)


@pytest.mark.parametrize(
    ("base", "sized_args", "expected"),
    [
        (["m", "--port", "8000", "--a", "1"], ["--a", "2"], ["m", "--port", "8000"]),
        (["--a=1", "--b"], ["--a", "2"], ["--b"]),
        (["--a", "1"], ["--a=2"], []),
        (["--a", "1"], [], ["--a", "1"]),
    ],
)
def test_a_flag_of_sizing_replaces_ours(base: list[str], sized_args: list[str], expected: list[str]) -> None:
    assert without(base, sized_args) == expected


def test_the_users_arguments_come_last_and_his_variables_win() -> None:
    from ragstow.spec.model import EnvVar

    llm = replace(LLM, args=("--seed", "1"), env=(EnvVar("HF_HOME", "/elsewhere"),))
    before = exclusive()
    service = replace(before.service, components=(llm, *before.service.components[1:]))
    [container] = workloads(Scenario(service, before.plan))["support-llm"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--seed", "1"]
    assert [row["value"] for row in container["env"] if row["name"] == "HF_HOME"] == ["/elsewhere"]


def test_claims_that_are_shared_and_claims_of_one_pod() -> None:
    scenario = SCENARIOS["dra"]()
    claims = of_kind(scenario, "ResourceClaim")
    assert list(claims) == ["notes-embedder-reranker-0", "notes-embedder-reranker-1"]
    used: dict[str, list[str]] = {}
    for name, workload in workloads(scenario).items():
        [claim] = workload["spec"]["template"]["spec"]["resourceClaims"]
        used.setdefault(claim.get("resourceClaimName") or claim["resourceClaimTemplateName"], []).append(name)
        assert workload["spec"]["template"]["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert used == {
        "notes-llm-gpu": ["notes-llm"],
        "notes-embedder-reranker-0": ["notes-embedder-0", "notes-reranker-0"],
        "notes-embedder-reranker-1": ["notes-embedder-1", "notes-reranker-1"],
        "notes-embedder-gpu": ["notes-embedder-more"],
    }
    assert set(of_kind(scenario, "ResourceClaimTemplate")) == {"notes-llm-gpu", "notes-embedder-gpu"}


def test_a_claim_without_a_selector_of_the_plan_asks_for_product_or_profile() -> None:
    [template] = of_kind(SCENARIOS["dra-mig"](), "ResourceClaimTemplate").values()
    [request] = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert request["exactly"]["selectors"] == [
        {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}
    ]


def test_a_component_that_the_planner_left_out_is_rendered_without_a_gpu() -> None:
    service = Service("plain", "rag", (component("gateway", "gateway", image="registry.example/g:1"),), research().placement)
    scenario = Scenario(service, plan(service, (), (), exclusive().plan.cluster.plugin))
    [workload] = workloads(scenario).values()
    assert not has_gpu(workload["spec"]["template"]["spec"])


def test_an_encoder_on_a_cpu_gets_the_image_for_it() -> None:
    from render_plans import NO_GPU

    embedder = component("embedder", "embedder", model="BAAI/bge-m3", gpu="preferred")
    service = Service("plain", "rag", (embedder,), research().placement)
    scenario = Scenario(service, plan(service, (got("embedder", NO_GPU),), (), exclusive().plan.cluster.plugin))
    [workload] = workloads(scenario).values()
    assert workload["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":cpu-1.9")


def test_postgres_runs_as_its_own_user_and_is_tried_on_its_port() -> None:
    scenario = exclusive()
    secret = EnvVar("POSTGRES_PASSWORD", value_from={"secretKeyRef": {"name": "tables", "key": "password"}})
    tables = component("tables", "vector-store", engine="pgvector", version="18", env=(secret,))
    service = replace(scenario.service, components=(tables,))
    planned = plan(service, (got("tables", NO_GPU),), (), scenario.plan.cluster.plugin)
    rendered = render(service, planned, FACTS)
    made = {(item["kind"], item["metadata"]["name"]): item for item in rendered.objects}
    pod = made["StatefulSet", "support-tables"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "docker.io/pgvector/pgvector:pg18"
    # The images of docker-library/postgres keep data of 18 and later below /var/lib/postgresql; their user is 999.
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/var/lib/postgresql"}]
    environment = {item["name"]: item for item in container["env"]}
    assert environment["PGDATA"]["value"].startswith("/var/lib/postgresql/")
    assert "value" not in environment["POSTGRES_PASSWORD"]
    security = pod["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (999, 999, 999)
    assert container["readinessProbe"]["tcpSocket"] == {"port": "postgres"}
    [port] = made["Service", "support-tables"]["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("postgres", 5432, "postgres")
    steps = next(file.text for file in rendered.files if file.path == "STEPS.md")
    assert "postgres://support-tables.rag.svc:5432" in steps
    assert "support-tables:http/proxy" not in steps
