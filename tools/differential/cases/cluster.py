"""Namespaces and Nodes: names, finalizers, status, deletion."""
from .form import *

SPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def namespace(name, **more):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def node(**more):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{ns}", **more.pop("metadata", {})}, **more}


def cases():
    n = SPACES + "/{ns}-x"
    for name in ("A", "a_b", "a.b", "-a", "a-", "a" * 64, "", "1", "kube-x", "é"):
        yield case("cluster/namespace-name-" + name[:5], post(SPACES, namespace(name and "{ns}" + name)), cleanup=[SPACES + "/{ns}" + name] if name else [])
    for label, more in {"finalizers": {"spec": {"finalizers": ["kubernetes", "x.example/y"]}}, "finalizers-empty": {"spec": {"finalizers": []}}, "finalizer-bad": {"spec": {"finalizers": ["a b"]}}, "finalizer-plain": {"spec": {"finalizers": ["x"]}}, "finalizers-null": {"spec": {"finalizers": None}}, "spec-null": {"spec": None}, "status": {"status": {"phase": "Terminating"}}, "phase-bad": {"status": {"phase": "x"}}, "label-name": {"metadata": {"labels": {"kubernetes.io/metadata.name": "z"}}}, "meta-finalizer": {"metadata": {"finalizers": ["kubernetes"]}}, "namespace": {"metadata": {"namespace": "other"}}, "unknown": {"spec": {"x": 1}},
                        "conditions": {"status": {"conditions": [{"type": "X", "status": "True"}]}}}.items():
        yield case("cluster/namespace-" + label, post(SPACES, {**namespace("{ns}-x"), **more, "metadata": {"name": "{ns}-x", **more.get("metadata", {})}}), get(n, headers=TABLE), put(n, {**namespace("{ns}-x"), **more, "metadata": {"name": "{ns}-x", **more.get("metadata", {})}}), patch(n + "/status", {"status": more.get("status", {"conditions": [{"type": "Y", "status": "x"}]})}), put(n + "/finalize", {**namespace("{ns}-x"), **more, "metadata": {"name": "{ns}-x"}}), get(n), cleanup=[n])
    yield case("cluster/namespace-finalize", post(SPACES, namespace("{ns}-x", spec={"finalizers": ["x.example/y"]})), delete(n), get(n, headers=TABLE), post(n + "/finalize", namespace("{ns}-x")), put(n + "/finalize", namespace("{ns}-y")), put(n + "/finalize", namespace("{ns}-x", metadata={"resourceVersion": "1"})), patch(n + "/finalize", {"spec": {"finalizers": []}}), post(SPACES + "/{ns}-x/configmaps", config_map()), delete(n), cleanup=[n])
    for label, more in {"status-update": {"status": {"phase": "Running", "capacity": {"cpu": "1"}}}, "cidr-host-bits": {"spec": {"podCIDR": "10.1.0.5/24"}}, "cidr-three": {"spec": {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}}, "taints": {"spec": {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}, {"key": "a", "value": "b", "effect": "NoExecute"}]}}, "taint-empty": {"spec": {"taints": [{"key": "", "effect": ""}]}}, "taint-value": {"spec": {"taints": [{"key": "a", "value": "b c", "effect": "NoSchedule"}]}}, "config-source": {"spec": {"configSource": {"configMap": {"name": "x"}}}}, "external-id": {"spec": {"externalID": "x"}},
                        "annotation-avoid": {"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods": "{}"}}}, "annotation-avoid-bad": {"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods": "x"}}}, "namespace": {"metadata": {"namespace": "x"}}, "capacity": {"status": {"capacity": {"cpu": "-1", "x.example/y": "1.5"}}}, "quantity-bad": {"status": {"capacity": {"cpu": "x"}}}, "addresses": {"status": {"addresses": [{"type": "InternalIP", "address": "x"}, {"type": "InternalIP", "address": "x"}]}}, "conditions-same": {"status": {"conditions": [{"type": "Ready", "status": "True"}] * 2}}, "attached": {"status": {"volumesAttached": [{"name": "a", "devicePath": "b"}]}}, "images": {"status": {"images": [{"names": ["a"], "sizeBytes": 1}]}}}.items():
        N = NODES + "/{ns}"
        yield case("cluster/node-" + label, post(NODES, {**node(), **more, "metadata": {"name": "{ns}", **more.get("metadata", {})}}), get(N, headers=TABLE), patch(N, {k: v for k, v in more.items()}), patch(N, {k: v for k, v in more.items()}, STRATEGIC), patch(N + "/status", {k: v for k, v in more.items()}, STRATEGIC), get(N), cleanup=[N])
    for name in ("A", "a_b", "a.b", "a" * 254, "-a", ""):
        yield case("cluster/node-name-" + name[:5], post(NODES, {**node(), "metadata": {"name": name and "{ns}" + name}}), cleanup=[NODES + "/{ns}" + name] if name else [])
    N = NODES + "/{ns}"
    yield case("cluster/node-changes", post(NODES, node(spec={"podCIDR": "10.1.0.0/24", "providerID": "a://b"})), patch(N, {"spec": {"providerID": "a://c"}}), patch(N, {"spec": {"providerID": None}}), patch(N, {"spec": {"podCIDR": None}}), patch(N, {"spec": {"podCIDRs": None}}), patch(N, {"spec": {"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}), patch(N, {"spec": {"podCIDR": None, "podCIDRs": None}}), patch(N, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, STRATEGIC), patch(N, {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, STRATEGIC), patch(N, {"metadata": {"name": "other"}}), patch(N + "/status", {"spec": {"unschedulable": True}}), get(N), cleanup=[N])
