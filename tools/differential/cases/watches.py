"""Watches in the forms Table and metadata only, of all namespaces, of other kinds, with selectors that objects enter and leave."""
import itertools

from .form import *
from .objects import OBJECTS

FORMS = {"json": "application/json", "table": "application/json;as=Table;g=meta.k8s.io;v=v1", "partial": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}


def cases():
    some = [post(SECRETS, secret(name="a", labels={"x": "1"})), post(SECRETS, secret(name="b", labels={"x": "2"})), patch(SECRETS + "/a", {"metadata": {"labels": {"x": "2"}}}), patch(SECRETS + "/b", {"metadata": {"labels": {"x": "1"}, "finalizers": ["x.example/y"]}}), delete(SECRETS + "/b"), patch(SECRETS + "/b", {"metadata": {"finalizers": None}}), delete(SECRETS + "/a"), post(SECRETS, secret(name="a", labels={"x": "1"}))]
    selectors = ("", "&labelSelector=x=1", "&labelSelector=x=2", "&labelSelector=x", "&labelSelector=!x", "&labelSelector=x notin (1)", "&fieldSelector=metadata.name=a", "&fieldSelector=metadata.name!=a", "&fieldSelector=metadata.name=b&labelSelector=x=1", "&fieldSelector=type=Opaque", "&fieldSelector=type!=Opaque")
    starts = ("resourceVersion=${0.metadata.resourceVersion}", "resourceVersion=${2.metadata.resourceVersion}", "resourceVersion=0", "resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "resourceVersion=${7.metadata.resourceVersion}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "resourceVersion=${0.metadata.resourceVersion}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
    for (label, accept), selector, start in itertools.product(FORMS.items(), selectors, starts):
        if label != "json" and selector not in ("", "&labelSelector=x=1", "&fieldSelector=metadata.name=a"):
            continue
        yield case("watches/%s%s-%s" % (label, selector, start), *some, watch(SECRETS + "?watch=1&timeoutSeconds=1&" + start + selector, headers={"Accept": accept}, bookmarks=True))
    for include in ("None", "Metadata", "Object", "x"):
        yield case("watches/include-" + include, *some, watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}&includeObject=" + include, headers={"Accept": FORMS["table"]}, bookmarks=True))
    for name, (path, body) in OBJECTS.items():
        target = path + "/" + body["metadata"]["name"]
        outside = [] if "namespaces/{ns}/" in path else [target]
        for label, accept in FORMS.items():
            query = "?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}&fieldSelector=metadata.name=" + body["metadata"]["name"]
            yield case("watches/kind-%s-%s" % (name, label), post(path, body), patch(target, {"metadata": {"labels": {"x": "y"}}}), patch(target, {"metadata": {"annotations": {"x": "y"}}}, STRATEGIC), delete(target), watch(path + query, headers={"Accept": accept}), cleanup=outside)
    s = SERVICES + "/s"
    changes = [post(SERVICES, service({"type": "LoadBalancer", "ports": [{"port": 80}]})), patch(s + "/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}), patch(s, {"spec": {"type": "NodePort"}}), patch(s, {"spec": {"type": "ClusterIP"}}), patch(s, {"spec": {"type": "ExternalName", "externalName": "a.example"}}), patch(s, {"spec": {"type": "ClusterIP", "clusterIP": "None"}}), delete(s)]
    for (label, accept), selector in itertools.product(FORMS.items(), ("", "&fieldSelector=spec.type=NodePort", "&fieldSelector=spec.type!=ClusterIP", "&fieldSelector=spec.clusterIP=None")):
        yield case("watches/service-%s%s" % (label, selector), *changes, watch(SERVICES + "?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}" + selector, headers={"Accept": accept}))
        yield case("watches/service-all-%s%s" % (label, selector), *changes, watch("/api/v1/services?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}" + (selector + "," if selector else "&fieldSelector=") + "metadata.namespace={ns}", headers={"Accept": accept}))
    p = PODS + "/p"
    pods = [post(PODS, pod()), patch(p, {"metadata": {"labels": {"app": "q"}}}), patch(p + "/status", {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}, STRATEGIC), delete(p), post(PODS, pod(nodeName="n")), delete(p), delete(p + "?gracePeriodSeconds=0")]
    for selector in ("", "&labelSelector=app=p", "&fieldSelector=status.phase=Pending", "&fieldSelector=spec.nodeName=n", "&fieldSelector=status.podIP=10.1.1.1", "&fieldSelector=spec.nodeName="):
        yield case("watches/pods" + selector, *pods, watch(PODS + "?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}" + selector))
    yield case("watches/collection", *[post(SECRETS, secret(name=n)) for n in "abc"], delete(SECRETS), watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=${2.metadata.resourceVersion}"))
    yield case("watches/no-change", post(SECRETS, secret()), patch(SECRETS + "/c", {}), put(SECRETS + "/c", secret()), patch(SECRETS + "/c?dryRun=All", {"metadata": {"labels": {"a": "b"}}}), delete(SECRETS + "/c?dryRun=All"), watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=${0.metadata.resourceVersion}"))
    yield case("watches/errors", watch(SECRETS + "?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=spec.x=y"), watch(SECRETS + "?watch=1&timeoutSeconds=1&labelSelector=a b"), watch("/api/v1/namespaces/none-such/secrets?watch=1&timeoutSeconds=1&resourceVersion=0"), watch("/api/v1/none?watch=1"), watch(SECRETS + "?watch=1&timeoutSeconds=1&continue=x"), watch(SECRETS + "?watch=1&timeoutSeconds=x"))
