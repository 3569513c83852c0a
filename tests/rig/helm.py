"""A scripted helm for the one chart that matters here: `history`, `upgrade` and `rollback` of the device plugin's release.

It runs as a program of its own, through kubectl as administrator (RAG_RIG_KUBECTL, RAG_RIG_KUBECONFIG). Of the value
`config.map` it makes what the chart makes: a ConfigMap `<fullname>-configs`, a config-manager beside the plugin and before it,
a checksum on the template. Revisions are kept in RAG_RIG_HELM, a folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
_NAME = "nvidia-device-plugin"


def main(words: list[str]) -> int:
    """One command."""
    verb, release = words[0], words[1]
    namespace = words[words.index("--namespace") + 1]
    kept = Path(os.environ["RAG_RIG_HELM"])
    fullname = release if _NAME in release else f"{release}-{_NAME}"
    revisions = sorted(kept.glob("*.json"), key=lambda path: int(path.stem))
    if not revisions:
        revisions = [_keep(kept, 1, namespace, fullname)]
    last = int(revisions[-1].stem)
    if verb == "history":
        print(json.dumps([{"revision": last, "status": "deployed", "chart": f"{_NAME}-0.20.0"}]))
        return 0
    if verb == "upgrade":
        values = yaml.safe_load(Path(words[words.index("--values") + 1]).read_text())
        _upgrade(namespace, fullname, values.get("config") or {})
        _keep(kept, last + 1, namespace, fullname)
        return 0
    if verb == "rollback":
        _restore(namespace, fullname, json.loads((kept / f"{words[2]}.json").read_text()))
        _keep(kept, last + 1, namespace, fullname)
        return 0
    print(f"Error: unknown command {verb}", file=sys.stderr)
    return 1


def _kubectl(*words: str, stdin: str | None = None) -> str:
    command = [os.environ["RAG_RIG_KUBECTL"], "--kubeconfig", os.environ["RAG_RIG_KUBECONFIG"], *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def _keep(folder: Path, number: int, namespace: str, fullname: str) -> Path:
    daemonset = json.loads(_kubectl("get", "daemonset", fullname, "-n", namespace, "-o", "json"))
    found = _kubectl("get", "configmap", f"{fullname}-configs", "-n", namespace, "-o", "json", "--ignore-not-found")
    config_map = json.loads(found)["data"] if found else None
    path = folder / f"{number}.json"
    path.write_text(json.dumps({"template": daemonset["spec"]["template"], "configs": config_map}))
    return path


def _restore(namespace: str, fullname: str, kept: Json) -> None:
    if kept["configs"] is None:
        _kubectl("delete", "configmap", f"{fullname}-configs", "-n", namespace, "--ignore-not-found")
    else:
        _configs(namespace, fullname, kept["configs"])
    _template(namespace, fullname, kept["template"])


def _upgrade(namespace: str, fullname: str, config: Json) -> None:
    texts = {str(key): str(text) for key, text in (config.get("map") or {}).items()}
    _configs(namespace, fullname, texts)
    template = json.loads(_kubectl("get", "daemonset", fullname, "-n", namespace, "-o", "json"))["spec"]["template"]
    pod = template["spec"]
    main_ = next(item for item in pod["containers"] if item["name"].endswith("-ctr"))
    pod["containers"] = [main_, _manager(main_, config, "sidecar", once=False)]
    pod["initContainers"] = [_manager(main_, config, "init", once=True)]
    pod["shareProcessNamespace"] = True
    main_["env"] = [item for item in main_.get("env") or [] if item["name"] != "CONFIG_FILE"]
    main_["env"].append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
    ours = ("available-configs", "config")
    main_["volumeMounts"] = [item for item in main_.get("volumeMounts") or [] if item["name"] not in ours] + _mounts()
    pod["volumes"] = [item for item in pod.get("volumes") or [] if item["name"] not in ours]
    pod["volumes"] += [
        {"name": "available-configs", "configMap": {"name": f"{fullname}-configs"}},
        {"name": "config", "emptyDir": {}},
    ]
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    template["metadata"].setdefault("annotations", {})["checksum/config"] = digest
    _template(namespace, fullname, template)


def _manager(main_: Json, config: Json, suffix: str, *, once: bool) -> Json:
    strategies = config.get("fallbackStrategies") or ["named", "single"]
    values = {
        "ONESHOT": str(once).lower(),
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": str(config.get("default") or ""),
        "FALLBACK_STRATEGIES": ",".join(strategies),
        "SEND_SIGNAL": str(not once).lower(),
    }
    return {
        "name": f"{_NAME}-{suffix}",
        "image": main_["image"],
        "command": ["config-manager"],
        "env": [{"name": key, "value": value} for key, value in values.items()],
        "volumeMounts": _mounts(),
    }


def _mounts() -> list[Json]:
    return [
        {"name": "available-configs", "mountPath": "/available-configs"},
        {"name": "config", "mountPath": "/config"},
    ]


def _configs(namespace: str, fullname: str, texts: dict[str, str]) -> None:
    meta = {"name": f"{fullname}-configs", "namespace": namespace}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": texts}
    _kubectl("apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", "-", stdin=json.dumps(item))


def _template(namespace: str, fullname: str, template: Json) -> None:
    whole = json.loads(_kubectl("get", "daemonset", fullname, "-n", namespace, "-o", "json"))
    whole["spec"]["template"] = template
    _kubectl("replace", "-f", "-", stdin=json.dumps(whole))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
