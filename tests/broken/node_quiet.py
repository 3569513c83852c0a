"""What programs print of drivers, cards and runtimes while nothing is wrong: no cause is named for it."""

from __future__ import annotations

from collections.abc import Callable

from broken.cluster import Cluster, Raw
from broken.small import GPU, PLUGIN, WHEN, container, node, pod, runs

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def _served(labels: dict[str, str] | None = None, gpus: int = 1) -> Cluster:
    """A node that serves its cards to a pod that runs."""
    c = Cluster("", node("h1", {GPU: 8}, {**PCI, **(labels or {})}))
    c.add(pod("nvdp-aaaaa", "kube-system", PLUGIN, runs(), "h1", ("DaemonSet", "nvdp")))
    c.add(pod("llm-0", "rag", container("vllm", "vllm/vllm-openai:v0.11.0", {GPU: gpus}), runs(), "h1", ("StatefulSet", "llm")))
    return c


def _logs(path: str, text: str) -> Cluster:
    c = _served()
    c.attachments[f"logs/{path}"] = text
    return c


def _condition(kind: str, status: str, reason: str, message: str) -> Cluster:
    c = _served()
    conditions: list[Raw] = c.get("Node", "h1")["status"]["conditions"]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": WHEN})
    return c


def _monitor() -> Cluster:
    """A privileged agent without GPU lists every card, as it must."""
    c = _served()
    box = container("agent", "registry.example/node-agent:1", securityContext={"privileged": True})
    c.add(pod("node-agent-aaaaa", "monitoring", box, runs(), "h1", ("DaemonSet", "node-agent")))
    c.attachments["logs/node-agent-aaaaa.log"] = "".join(
        f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-00000000000{number})\n" for number in range(8)
    )
    return c


def _capped() -> Cluster:
    """A share whose cap is in force."""
    c = Cluster("", node("t4", {GPU: 10}, PCI))
    c.add(pod("emb-0", "rag", container("tei", "x/tei:1", {GPU: 1, "nvidia.com/gpumem": 3000}), runs(), "t4"))
    c.attachments["logs/emb-0.txt"] = (
        "|   0  Tesla T4                       On  | 00000000:00:05.0 Off |                    0 |\n"
        "| N/A   34C    P8               6W /  70W |    300MiB /  3000MiB |      0%      Default |\n"
    )
    return c


def _starting() -> Cluster:
    """A pod that is being made on a node whose runtime has the handler."""
    c = Cluster("", node("h1", {GPU: 8}, PCI, handlers=["", "runc", "nvidia"]))
    c.add({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    status = {
        "phase": "Pending",
        "containerStatuses": [{"ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}],
    }
    c.add(
        pod("llm-0", "rag", container("vllm", "v", {GPU: 1}), status, "h1", ("StatefulSet", "llm"), runtimeClassName="nvidia")
    )
    return c


def _validating() -> Cluster:
    """The operator has just begun: its validator waits for the driver that is being installed."""
    c = Cluster("", node("new-1", {}, PCI))
    made = pod("nvidia-operator-validator-aaaaa", "gpu-operator", container("nvidia-operator-validator", "v"), {}, "new-1")
    running = {"name": "driver-validation", "ready": False, "restartCount": 0, "state": {"running": {"startedAt": WHEN}}}
    made["status"] = {"phase": "Pending", "initContainerStatuses": [running]}
    c.add(made)
    return c


def _unused() -> Cluster:
    """A GPU node that offers nothing, and nobody waits for it."""
    c = Cluster("", node("spare", {}, PCI))
    c.add(pod("nvdp-aaaaa", "kube-system", PLUGIN, runs(), "spare", ("DaemonSet", "nvdp")))
    return c


QUIET: dict[str, Callable[[], Cluster]] = {
    "Xids of applications": lambda: _logs(
        "h1-dmesg.txt",
        "[1.0] NVRM: Xid (PCI:0000:19:00): 31, pid=7, name=python3, Ch 00000008, intr 00000000. MMU Fault\n"
        "[2.0] NVRM: Xid (PCI:0000:19:00): 43, pid=7, name=python3, Ch 00000008\n"
        "[3.0] NVRM: Xid (PCI:0000:19:00): 13, pid=7, name=python3, Graphics SM Warp Exception\n",
    ),
    "a link event that is not fatal": lambda: _logs(
        "h1-dmesg.txt", "NVRM: Xid (PCI:0000:c5:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507)\n"
    ),
    "an Xid of an application in the metrics": lambda: _logs(
        "h1-metrics.txt", 'DCGM_FI_DEV_XID_ERRORS{gpu="1"} 31\nDCGM_FI_DEV_XID_ERRORS{gpu="2"} 0\n'
    ),
    "a condition about an application's Xid": lambda: _condition(
        "GpuMemWatch",
        "True",
        "GpuMemWatchIsNotHealthy",
        "ErrorCode:DCGM_FR_XID_ERROR GPU:4 Detected XID 31 for GPU 4 Please consult the documentation for details of this XID. Recommended Action=NONE;",
    ),
    "the same of GKE": lambda: _condition("XidCriticalError", "True", '{"31":true}', "6e43a052"),
    "conditions that say that all is well": lambda: _condition(
        "AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady", "no Xid 79"
    ),
    "a detector that found nothing": lambda: _condition("GPUMissing", "False", "NoGPUMissing", "All GPUs are present"),
    "a monitoring agent that cannot reach DCGM": lambda: _condition(
        "AcceleratedHardwareReady",
        "False",
        "DCGMError",
        "failed to initialize DCGM: Error connecting to nv-hostengine: Host engine connection invalid/disconnected",
    ),
    "an image that would like a newer driver and runs": lambda: _logs(
        "llm-0.log",
        "ERROR: This container was built for NVIDIA Driver Release 595.58 or later, but\n"
        "       version 580.126.09 was detected and compatibility mode is UNAVAILABLE.\n",
    ),
    "compatibility mode": lambda: _logs(
        "llm-0.log",
        "NOTE: CUDA Forward Compatibility mode ENABLED.\n  Using CUDA 13.0 driver version 580.65.06 with kernel driver version 550.90.07.\n",
    ),
    "a fabric manager on a machine without switches": lambda: _logs(
        "h1-syslog.txt",
        "nvidia-fabricmanager-start.sh[4756]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
        "systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.\n",
    ),
    "a fabric that is complete": lambda: _logs(
        "h1-smi-q.txt",
        "    Fabric\n        State                             : Completed\n        Status                            : Success\n",
    ),
    "the devices that a container may use": lambda: _logs("llm-0.txt", "c 195:* m\nc 195:254 rw\nc 195:0 rw\n"),
    "the validator that waited for the driver": lambda: _logs(
        "driver-validation.log",
        "sh: nvidia-smi: command not found\nwaiting for nvidia drivers to be loaded\n| NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |\n",
    ),
    "an agent that lists every card": _monitor,
    "a share whose cap is in force": _capped,
    "a pod that starts under a handler that is there": _starting,
    "an operator that has just begun": _validating,
    "a GPU node that nobody waits for": _unused,
}
