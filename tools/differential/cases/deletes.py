"""Deletion: options, preconditions, collections."""
from .form import *

OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}


def cases():
    bodies = {
        "uid": {"preconditions": {"uid": "${0.metadata.uid}"}}, "uid-bad": {"preconditions": {"uid": "x"}}, "version": {"preconditions": {"resourceVersion": "${0.metadata.resourceVersion}"}}, "version-bad": {"preconditions": {"resourceVersion": "1"}},
        "version-text": {"preconditions": {"resourceVersion": "abc"}}, "both-bad": {"preconditions": {"uid": "x", "resourceVersion": "1"}}, "uid-null": {"preconditions": {"uid": None}}, "preconditions-null": {"preconditions": None}, "uid-empty": {"preconditions": {"uid": ""}},
        "policy-background": {"propagationPolicy": "Background"}, "policy-orphan": {"propagationPolicy": "Orphan"}, "policy-foreground": {"propagationPolicy": "Foreground"}, "policy-bad": {"propagationPolicy": "Nope"}, "policy-lower": {"propagationPolicy": "background"}, "policy-empty": {"propagationPolicy": ""},
        "orphan": {"orphanDependents": True}, "orphan-false": {"orphanDependents": False}, "orphan-and-policy": {"orphanDependents": True, "propagationPolicy": "Orphan"}, "grace": {"gracePeriodSeconds": 0}, "grace-10": {"gracePeriodSeconds": 10}, "grace-negative": {"gracePeriodSeconds": -1},
        "grace-text": {"gracePeriodSeconds": "x"}, "dry-run": {"dryRun": ["All"]}, "dry-run-bad": {"dryRun": ["x"]}, "dry-run-two": {"dryRun": ["All", "All"]}, "dry-run-empty": {"dryRun": []}, "unknown": {"x": 1}, "kind-bad": {"kind": "Service"}, "version-other": {"apiVersion": "v2"},
        "kind-none": {"kind": ""}, "version-none": {"apiVersion": ""}, "group": {"apiVersion": "apps/v1"}, "meta": {"apiVersion": "meta.k8s.io/v1"}, "ignore": {"ignoreStoreReadErrorWithClusterBreakingPotential": True}, "ignore-false": {"ignoreStoreReadErrorWithClusterBreakingPotential": False},
        "ignore-and-grace": {"ignoreStoreReadErrorWithClusterBreakingPotential": True, "gracePeriodSeconds": 0}, "events": {"apiVersion": "events.k8s.io/v1"}, "discovery": {"apiVersion": "discovery.k8s.io/v1"},
    }
    for label, body in bodies.items():
        for path, make, name in ((SERVICES, service(), "s"), (SECRETS, secret(), "c"), (SLICES, endpoint_slice(), "s-1"), (PODS, pod(), "p")):
            kind = path.rsplit("/", 1)[1]
            target = path + "/" + name
            yield case("deletes/%s-%s" % (kind, label), post(path, make), delete(target, {**OPTIONS, **body}), get(target), delete(target), get(target), patch(target, {"metadata": {"finalizers": None}}), get(target))
        yield case("deletes/collection-" + label, post(SECRETS, secret()), delete(SECRETS, {**OPTIONS, **body}), get(SECRETS))
    for label, text in (("empty", ""), ("text", "x"), ("array", "[]"), ("null", "null"), ("brace", "{"), ("object", "{}"), ("string", '"x"'), ("duplicate", '{"kind":"DeleteOptions","kind":"DeleteOptions","apiVersion":"v1"}'), ("yaml", "kind: DeleteOptions\napiVersion: v1\n")):
        yield case("deletes/body-" + label, post(SECRETS, secret()), delete(SECRETS + "/c", text))
        yield case("deletes/body-collection-" + label, post(SECRETS, secret()), delete(SECRETS, text))
        yield case("deletes/body-yaml-" + label, post(SECRETS, secret()), delete(SECRETS + "/c", text, headers={"Content-Type": "application/yaml"}))
    for form in ("text/plain", "application/merge-patch+json", "", "application/json; charset=utf-8", "application/x"):
        yield case("deletes/content-type-" + form, post(SECRETS, secret()), delete(SECRETS + "/c", OPTIONS, headers={"Content-Type": form}))
        yield case("deletes/content-type-create-" + form, post(SECRETS, secret(), headers={"Content-Type": form}))
    for query in ("dryRun=All", "dryRun=x", "dryRun=", "gracePeriodSeconds=0", "gracePeriodSeconds=-1", "gracePeriodSeconds=x", "gracePeriodSeconds=", "propagationPolicy=Orphan", "propagationPolicy=Foreground", "propagationPolicy=x", "propagationPolicy=", "orphanDependents=true", "orphanDependents=x", "orphanDependents=false&propagationPolicy=Orphan", "preconditions=x", "unknown=1", "pretty=true",
                  "fieldValidation=Nope", "dryRun=All&dryRun=All", "ignoreStoreReadErrorWithClusterBreakingPotential=true", "gracePeriodSeconds=5&gracePeriodSeconds=6", "resourceVersion=1"):
        yield case("deletes/query-" + query, post(SECRETS, secret()), delete(SECRETS + "/c?" + query), get(SECRETS + "/c"), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
        yield case("deletes/query-body-" + query, post(SECRETS, secret()), delete(SECRETS + "/c?" + query, OPTIONS), get(SECRETS + "/c"), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
        yield case("deletes/query-collection-" + query, post(SECRETS, secret()), delete(SECRETS + "?" + query), get(SECRETS), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
        yield case("deletes/query-pod-" + query, post(PODS, pod()), delete(PODS + "/p?" + query), get(PODS + "/p"))
    three = [post(SECRETS, secret(name=n, labels={"n": n, "x": "y"})) for n in "abc"]
    for query in ("", "labelSelector=n=a", "labelSelector=n!=a", "labelSelector=nope", "labelSelector=a b", "labelSelector==", "fieldSelector=metadata.name=b", "fieldSelector=metadata.name!=b", "fieldSelector=x=y", "fieldSelector=metadata.name", "limit=1", "limit=2", "limit=-1", "limit=x", "continue=x", "resourceVersion=0", "resourceVersion=1",
                  "resourceVersion=x", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan&resourceVersion=1", "resourceVersionMatch=x&resourceVersion=1", "timeoutSeconds=1", "timeoutSeconds=x", "watch=true", "sendInitialEvents=true", "labelSelector=n in (a,b)&fieldSelector=metadata.name=b", "dryRun=All&labelSelector=n=a", "allowWatchBookmarks=true"):
        yield case("deletes/collection-query-" + query, *three, delete(SECRETS + ("?" + query if query else "")), get(SECRETS))
    yield case("deletes/collection-services", post(SERVICES, service()), post(SERVICES, service(name="t")), delete(SERVICES), get(SERVICES))
    yield case("deletes/collection-slices", post(SLICES, endpoint_slice()), delete(SLICES), get(SLICES))
    yield case("deletes/collection-endpoints", post(ENDPOINTS, endpoints([])), delete(ENDPOINTS), get(ENDPOINTS))
    yield case("deletes/collection-pods", post(PODS, pod()), delete(PODS), get(PODS))
    yield case("deletes/collection-finalizers", post(SECRETS, secret(finalizers=["x.example/y"])), post(SECRETS, secret(name="d")), delete(SECRETS), get(SECRETS), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
    yield case("deletes/collection-table", post(SECRETS, secret()), delete(SECRETS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}))
    yield case("deletes/table", post(SERVICES, service()), delete(SERVICES + "/s", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"}))
    yield case("deletes/metadata-form", post(SECRETS, secret(finalizers=["x.example/y"])), delete(SECRETS + "/c", headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
    for path in ("/api/v1/services", "/api/v1/namespaces", "/api/v1/nodes", "/apis/networking.k8s.io/v1/ipaddresses/none", "/apis/networking.k8s.io/v1/servicecidrs/none", "/api/v1/nodes/none", "/api/v1/namespaces/none", SERVICES + "/none", PODS + "/none", ENDPOINTS + "/none", SLICES + "/none", EVENTS + "/none", LEASES + "/none", "/api/v1/secrets", "/apis/discovery.k8s.io/v1/endpointslices"):
        if path not in ("/api/v1/nodes",):
            yield case("deletes/path-" + path, delete(path))
    yield case("deletes/default-namespace", delete("/api/v1/namespaces/default"), delete("/api/v1/namespaces/kube-system"), delete("/api/v1/namespaces/kube-public"), delete("/api/v1/namespaces/kube-node-lease?dryRun=All"))
    yield case("deletes/service-foreground-twice", post(SERVICES, service()), delete(SERVICES + "/s?propagationPolicy=Foreground"), delete(SERVICES + "/s?propagationPolicy=Orphan"), delete(SERVICES + "/s?propagationPolicy=Background"), get(SERVICES + "/s"), patch(SERVICES + "/s", {"metadata": {"finalizers": None}}))
    yield case("deletes/finalizer-with-policy", post(SECRETS, secret(finalizers=["orphan"])), delete(SECRETS + "/c"), get(SECRETS + "/c"), delete(SECRETS + "/c?propagationPolicy=Background"), get(SECRETS + "/c"), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}))
    yield case("deletes/pod-scheduled", post(PODS, pod(nodeName="n")), delete(PODS + "/p"), get(PODS + "/p"), delete(PODS + "/p?gracePeriodSeconds=60"), delete(PODS + "/p?gracePeriodSeconds=5"), get(PODS + "/p"), delete(PODS + "/p?gracePeriodSeconds=0"), get(PODS + "/p"))
    yield case("deletes/pod-scheduled-grace", post(PODS, pod(nodeName="n", terminationGracePeriodSeconds=7)), delete(PODS + "/p"), get(PODS + "/p"), delete(PODS + "/p?gracePeriodSeconds=-1"), get(PODS + "/p"), delete(PODS + "/p?gracePeriodSeconds=0"))
    yield case("deletes/cluster-ip-released", post(SERVICES, service({"clusterIP": "10.96.44.4", "ports": [{"port": 80}]}, finalizers=["x.example/y"])), delete(SERVICES + "/s"), post(SERVICES, service({"clusterIP": "10.96.44.4", "ports": [{"port": 80}]}, name="t")), patch(SERVICES + "/s", {"metadata": {"finalizers": None}}), post(SERVICES, service({"clusterIP": "10.96.44.4", "ports": [{"port": 80}]}, name="t")))
