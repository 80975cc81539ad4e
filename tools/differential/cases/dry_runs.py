"""Dry runs of all verbs with the allocators, and the state that they leave."""
from .form import *
from .services import FORMS, TYPES

S, T = SERVICES + "/s", SERVICES + "/t"
DRY = "?dryRun=All"
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
CHOSEN = {"type": "NodePort", "clusterIP": "10.96.34.1", "ports": [{"port": 80, "nodePort": 31401}]}
LOCAL = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31402, "clusterIP": "10.96.34.2", "ports": [{"port": 80, "nodePort": 31403}]}
DUAL = {"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["10.96.34.3", "fd00:10:96::343"], "clusterIP": "10.96.34.3", "ports": [{"port": 80}]}


def cases():
    for label, spec in {**FORMS, "chosen-node-port": CHOSEN, "local": LOCAL, "chosen-dual": DUAL}.items():
        body, other = service(spec), service(spec, name="t")
        yield case("dry-runs/create-" + label, post(SERVICES + DRY, body), get(S), post(SERVICES, body), post(SERVICES + DRY, body), post(SERVICES + DRY, other), post(SERVICES, other), delete(S + DRY), post(SERVICES + DRY, other), delete(S), post(SERVICES, other))
        yield case("dry-runs/put-" + label, put(S + DRY, body), get(S), put(S, body), put(S + DRY, body), put(T + DRY, other), put(S + DRY, service()), put(S + DRY, service({"type": "ExternalName", "externalName": "a.example"})), post(SERVICES, other), get(S))
        yield case("dry-runs/apply-" + label, patch(S + DRY + "&fieldManager=x", body, APPLY), get(S), patch(S + "?fieldManager=x", body, APPLY), patch(S + DRY + "&fieldManager=x", service({"ports": [{"port": 99, "protocol": "TCP"}]}), APPLY), patch(S + DRY + "&fieldManager=y", service({"ports": [{"port": 99, "protocol": "TCP"}], "type": "NodePort"}), APPLY), get(S))
        for t in TYPES:
            yield case("dry-runs/type-%s-%s" % (label, t), post(SERVICES, body), patch(S + DRY, {"spec": {"type": t, "externalName": "a.example"}}), get(S), post(SERVICES + DRY, other), patch(S, {"spec": {"type": t, "externalName": "a.example"}}), post(SERVICES, other))
        for change in ({"ipFamilyPolicy": "SingleStack"}, {"ipFamilyPolicy": "PreferDualStack"}, {"ports": [{"name": "q", "port": 5, "nodePort": 31404}]}, {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0}, {"clusterIP": None, "clusterIPs": None}, {"allocateLoadBalancerNodePorts": True}):
            yield case("dry-runs/change-%s-%s" % (label, "-".join(change)), post(SERVICES, body), patch(S + DRY, {"spec": change}), get(S), patch(S, {"spec": change}), get(S))
    for query, body in (("?dryRun=All", None), ("", {**OPTIONS, "dryRun": ["All"]}), ("?dryRun=All", {**OPTIONS, "dryRun": ["All"]}), ("?dryRun=All", OPTIONS), ("?dryRun=All&propagationPolicy=Foreground", None), ("?dryRun=All&propagationPolicy=Orphan", None), ("?dryRun=All&gracePeriodSeconds=0", None), ("", {**OPTIONS, "dryRun": ["All"], "preconditions": {"uid": "x"}}), ("", {**OPTIONS, "dryRun": ["All"], "preconditions": {"resourceVersion": "1"}})):
        for meta in ({}, {"finalizers": ["x.example/y"]}):
            label = "%s-%s-%d" % (query, ",".join((body or {}).keys()), len(meta))
            drop = patch(S, {"metadata": {"finalizers": None}})
            yield case("dry-runs/delete-" + label, post(SERVICES, service(CHOSEN, **meta)), delete(S + query, body), get(S), post(SERVICES, service(CHOSEN, name="t")), delete(SERVICES + query, body), get(SERVICES), drop)
            yield case("dry-runs/delete-pod-" + label, post(PODS, {**pod(nodeName="n"), "metadata": {"name": "p", **meta}}), delete(PODS + "/p" + query, body), get(PODS + "/p"), delete(PODS + query, body), get(PODS + "/p"), patch(PODS + "/p", {"metadata": {"finalizers": None}}))
    yield case("dry-runs/finalizer-removed", post(SERVICES, service(CHOSEN, finalizers=["x.example/y"])), delete(S), patch(S + DRY, {"metadata": {"finalizers": None}}), get(S), post(SERVICES, service(CHOSEN, name="t")), patch(S + "/status" + DRY, {"metadata": {"finalizers": None}}), get(S), patch(S, {"metadata": {"finalizers": None}}), post(SERVICES, service(CHOSEN, name="t")))
    yield case("dry-runs/status", post(SERVICES, service({"type": "LoadBalancer", "ports": [{"port": 80}]})), patch(S + "/status" + DRY, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}), get(S), step("PUT", S + "/status" + DRY, base=0, merge={"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}}), patch(S + "/status" + DRY + "&fieldManager=x", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}, APPLY), get(S))
    yield case("dry-runs/generate-name", post(SERVICES + DRY, service(None, name="", generateName="g-")), get(SERVICES), post(SERVICES, service(None, name="", generateName="g-")), get(SERVICES))
    yield case("dry-runs/invalid", post(SERVICES + DRY, service({"clusterIP": "10.96.0.1", "ports": [{"port": 80}]})), post(SERVICES + DRY, service({"clusterIP": "192.0.2.1", "ports": [{"port": 80}]})), post(SERVICES + DRY, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})), post(SERVICES + DRY, service({"ports": []})), post(SERVICES + DRY + "&fieldValidation=Strict", {**service(), "nope": 1}), post(SERVICES + "?dryRun=all", service()), post("/api/v1/namespaces/none-such/services" + DRY, service()))
    yield case("dry-runs/namespace", post("/api/v1/namespaces" + DRY, {"metadata": {"name": "{ns}-x"}}), get("/api/v1/namespaces/{ns}-x"), post("/api/v1/namespaces", {"metadata": {"name": "{ns}-x"}}), patch("/api/v1/namespaces/{ns}-x" + DRY, {"metadata": {"labels": {"a": "b"}}}), delete("/api/v1/namespaces/{ns}-x" + DRY), get("/api/v1/namespaces/{ns}-x"), put("/api/v1/namespaces/{ns}-x/finalize" + DRY, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}-x"}, "spec": {"finalizers": []}}), get("/api/v1/namespaces/{ns}-x"), cleanup=["/api/v1/namespaces/{ns}-x"])
    cidr = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "{ns}"}, "spec": {"cidrs": ["10.111.0.0/24"]}}
    address = {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.111.78.1"}, "spec": {"parentRef": {"resource": "services", "namespace": "x", "name": "y"}}}
    yield case("dry-runs/networking", post(CIDRS + DRY, cidr), get(CIDRS + "/{ns}"), post(CIDRS, cidr), delete(CIDRS + "/{ns}" + DRY), get(CIDRS + "/{ns}"), post(ADDRESSES + DRY, address), get(ADDRESSES + "/10.111.78.1"), post(ADDRESSES, address), delete(ADDRESSES + "/10.111.78.1" + DRY), get(ADDRESSES + "/10.111.78.1"), delete(ADDRESSES + "/10.111.78.1"), delete(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}", ADDRESSES + "/10.111.78.1"])
