"""Edges of requests: subresources, forms of status patches, directives, options of all verbs, collections."""
import itertools

from .form import *

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
PARTIAL_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
FLAWS = {
    "unknown": {"nope": 1}, "unknown-spec": {"spec": {"nope": 1, "ports": [{"port": 80}]}}, "unknown-port": {"spec": {"ports": [{"port": 80, "nope": 1}]}},
    "unknown-meta": {"metadata": {"name": "s", "nope": 1}}, "unknown-status": {"status": {"nope": 1}}, "unknown-owner": {"metadata": {"name": "s", "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "u", "nope": 1}]}},
    "case": {"Spec": {"ports": [{"port": 80}]}}, "case-port": {"spec": {"Ports": [{"port": 80}]}}, "several": {"a": 1, "b": 2, "spec": {"c": 3, "ports": [{"port": 80, "d": 4}]}},
    "type-port": {"spec": {"ports": [{"port": "80"}]}}, "type-bool": {"spec": {"publishNotReadyAddresses": "true", "ports": [{"port": 80}]}}, "type-number": {"spec": {"sessionAffinity": 5, "ports": [{"port": 80}]}},
    "type-list": {"spec": {"externalIPs": {"a": "b"}, "ports": [{"port": 80}]}}, "type-map": {"spec": {"selector": ["a"], "ports": [{"port": 80}]}}, "null-item": {"spec": {"externalIPs": [None], "ports": [{"port": 80}]}},
    "null-key": {"spec": {"selector": {"a": None}, "ports": [{"port": 80}]}}, "float": {"spec": {"ports": [{"port": 80.0}]}}, "exponent": '{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":8e1}]}}',
    "big": {"spec": {"ports": [{"port": 99999999999}]}}, "negative": {"spec": {"healthCheckNodePort": -1, "ports": [{"port": 80}]}},
}


def cases():
    yield from strictness()
    yield from directives()
    yield from collections()
    yield from slices()
    yield from sequences()


def strictness():
    for (label, flaw), mode in itertools.product(FLAWS.items(), ("", "Strict", "Warn", "Ignore", "strict")):
        query = "?fieldValidation=" + mode if mode else ""
        body = flaw if isinstance(flaw, str) else {**service(), **flaw}
        yield case("edges/create-%s-%s" % (label, mode), post(SERVICES + query, body))
        if isinstance(flaw, str):
            continue
        yield case("edges/put-%s-%s" % (label, mode), post(SERVICES, service()), put(SERVICES + "/s" + query, {**service(), **flaw}))
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("edges/%s-%s-%s" % (name, label, mode), post(SERVICES, service()), patch(SERVICES + "/s" + query, flaw, form))
            yield case("edges/status-%s-%s-%s" % (name, label, mode), post(SERVICES, service()), patch(SERVICES + "/s/status" + query, flaw, form))
        yield case("edges/apply-%s-%s" % (label, mode), patch(SERVICES + "/s?fieldManager=x" + query.replace("?", "&"), {**service(), **flaw}, APPLY))


def directives():
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "c", "port": 80, "protocol": "UDP"}]
    first = {"ports": ports, "selector": {"a": "b", "c": "d"}, "externalIPs": ["192.0.2.1", "192.0.2.2"], "loadBalancerSourceRanges": ["192.0.2.0/24"], "type": "LoadBalancer"}
    bodies = {
        "order": {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}], "ports": [{"port": 81, "name": "x"}]}},
        "order-only": {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}]}}, "order-missing": {"spec": {"$setElementOrder/ports": [{"port": 82}], "ports": [{"port": 81, "name": "x"}]}},
        "order-no-key": {"spec": {"$setElementOrder/ports": [{"name": "a"}], "ports": [{"port": 81, "name": "x"}]}}, "order-type": {"spec": {"$setElementOrder/ports": "x"}}, "order-new": {"spec": {"$setElementOrder/ports": [{"port": 90}, {"port": 80}, {"port": 81}], "ports": [{"port": 90, "name": "n"}]}},
        "delete": {"spec": {"ports": [{"$patch": "delete", "port": 81}]}}, "delete-missing": {"spec": {"ports": [{"$patch": "delete", "port": 99}]}}, "delete-no-key": {"spec": {"ports": [{"$patch": "delete", "name": "a"}]}}, "delete-both": {"spec": {"ports": [{"$patch": "delete", "port": 80}]}},
        "delete-and-add": {"spec": {"ports": [{"$patch": "delete", "port": 81}, {"port": 82, "name": "n"}]}}, "replace": {"spec": {"ports": [{"$patch": "replace"}, {"port": 82}]}}, "replace-empty": {"spec": {"ports": [{"$patch": "replace"}]}},
        "merge": {"spec": {"ports": [{"$patch": "merge", "port": 81, "name": "z"}]}}, "patch-bad": {"spec": {"ports": [{"$patch": "nope", "port": 81}]}}, "patch-number": {"spec": {"ports": [{"$patch": 5, "port": 81}]}},
        "map-replace": {"spec": {"selector": {"$patch": "replace", "x": "y"}}}, "map-delete": {"spec": {"selector": {"$patch": "delete"}}}, "map-merge": {"spec": {"selector": {"$patch": "merge", "x": "y"}}}, "map-bad": {"spec": {"selector": {"$patch": "nope"}}},
        "spec-replace": {"spec": {"$patch": "replace", "ports": [{"port": 80}]}}, "spec-delete": {"spec": {"$patch": "delete"}}, "root-replace": {"$patch": "replace", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}, "root-delete": {"$patch": "delete"},
        "retain": {"spec": {"$retainKeys": ["ports", "selector"], "selector": {"x": "y"}}}, "retain-missing": {"spec": {"$retainKeys": ["ports"], "selector": {"x": "y"}}}, "retain-type": {"spec": {"$retainKeys": "ports"}}, "retain-empty": {"spec": {"$retainKeys": []}},
        "primitive": {"spec": {"$deleteFromPrimitiveList/externalIPs": ["192.0.2.1"]}}, "primitive-type": {"spec": {"$deleteFromPrimitiveList/externalIPs": "x"}}, "primitive-missing": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/y"]}},
        "finalizers-delete": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a"]}}, "finalizers-add": {"metadata": {"finalizers": ["x.example/c"]}}, "finalizers-order": {"metadata": {"$setElementOrder/finalizers": ["x.example/b", "x.example/a"], "finalizers": ["x.example/c"]}}, "finalizers-order-only": {"metadata": {"$setElementOrder/finalizers": ["x.example/b", "x.example/a"]}},
        "finalizers-both": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a"], "$setElementOrder/finalizers": ["x.example/c", "x.example/b"], "finalizers": ["x.example/c"]}},
        "owners": {"metadata": {"ownerReferences": [{"uid": "u", "$patch": "delete"}]}}, "owners-add": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "y", "uid": "v"}]}}, "owners-change": {"metadata": {"ownerReferences": [{"uid": "u", "name": "z"}]}}, "owners-order": {"metadata": {"$setElementOrder/ownerReferences": [{"uid": "v"}, {"uid": "u"}], "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "y", "uid": "v"}]}},
        "unknown-directive": {"spec": {"$nope": 1}}, "unknown-order": {"spec": {"$setElementOrder/nope": [1]}}, "families": {"spec": {"ipFamilies": ["IPv4"]}}, "ips-null": {"spec": {"externalIPs": None}}, "labels-replace": {"metadata": {"labels": {"$patch": "replace", "z": "y"}}}, "labels-null": {"metadata": {"labels": {"a": None, "missing": None}}},
        "port-name": {"spec": {"ports": [{"port": 80, "name": "q"}]}}, "port-udp": {"spec": {"ports": [{"port": 80, "protocol": "UDP", "name": "q"}]}}, "port-twice": {"spec": {"ports": [{"port": 81, "name": "p"}, {"port": 81, "name": "q"}]}}, "port-null-field": {"spec": {"ports": [{"port": 81, "name": None}]}},
    }
    for order in itertools.permutations(ports):
        for label, change in {"new": [{"port": 99, "name": "n"}], "one": [{"port": 81, "name": "q"}], "none": [{"port": 99, "$patch": "delete"}], "delete": [{"port": 81, "$patch": "delete"}]}.items():
            yield case("edges/order-%s-%s" % ("".join(p["name"] for p in order), label), post(SERVICES, service({"ports": list(order)})), patch(SERVICES + "/s", {"spec": {"ports": change}}, STRATEGIC))
    meta = {"labels": {"a": "b"}, "finalizers": ["x.example/a", "x.example/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "u"}]}
    for label, body in bodies.items():
        drop = patch(SERVICES + "/s", {"metadata": {"finalizers": None}})
        yield case("edges/directive-" + label, post(SERVICES, service(first, **meta)), patch(SERVICES + "/s", body, STRATEGIC), get(SERVICES + "/s"), drop)
        yield case("edges/directive-merge-" + label, post(SERVICES, service(first, **meta)), patch(SERVICES + "/s", body, MERGE), drop)
        yield case("edges/directive-dry-" + label, post(SERVICES, service(first, **meta)), patch(SERVICES + "/s?dryRun=All", body, STRATEGIC), get(SERVICES + "/s"), drop)


def collections():
    three = [post(SERVICES, service(None, name=n, labels={"n": n, "x": "y"})) for n in "abc"]
    for label, query in (("limit", "limit=2"), ("limit-zero", "limit=0"), ("limit-negative", "limit=-1"), ("limit-text", "limit=x"), ("limit-big", "limit=99999999999999999999"), ("label", "labelSelector=n in (a,b)&limit=1"), ("field", "fieldSelector=metadata.name=b&limit=1"), ("rv", "resourceVersion=${2.metadata.resourceVersion}&limit=1"),
                         ("exact", "resourceVersion=${1.metadata.resourceVersion}&resourceVersionMatch=Exact&limit=1"), ("older", "resourceVersion=${1.metadata.resourceVersion}&resourceVersionMatch=NotOlderThan"), ("timeout", "timeoutSeconds=5"), ("type", "fieldSelector=spec.type=ClusterIP,metadata.name!=a"), ("cluster-ip", "fieldSelector=spec.clusterIP!=None&limit=2"), ("bookmarks", "allowWatchBookmarks=true"), ("partial", "limit=1&fieldValidation=Strict")):
        for accept, headers in (("json", None), ("table", TABLE), ("partial", PARTIAL_LIST)):
            more = {"headers": headers} if headers else {}
            yield case("edges/list-%s-%s" % (label, accept), *three, get(SERVICES + "?" + query, **more), get(SERVICES + "?" + query + "&continue=${3.metadata.continue}", **more))
    for label, headers in (("table", TABLE), ("partial", PARTIAL)):
        for include in ("", "None", "Metadata", "Object", "none"):
            query = "?includeObject=" + include if include else ""
            yield case("edges/write-%s-%s" % (label, include), step("POST", SERVICES + query, service(), headers), step("GET", SERVICES + "/s" + query, None, headers), step("PUT", SERVICES + "/s" + query, service(None, labels={"a": "b"}), headers), step("PATCH", SERVICES + "/s" + query, {"metadata": {"labels": {"c": "d"}}}, {**headers, "Content-Type": MERGE}), step("DELETE", SERVICES + "/s" + query, None, headers), get(SERVICES + "/s"))
    for label, options in {"uid": {"preconditions": {"uid": "${0.metadata.uid}"}}, "uid-other": {"preconditions": {"uid": "x"}}, "policy": {"propagationPolicy": "Foreground"}, "dry": {"dryRun": ["All"]}, "grace": {"gracePeriodSeconds": 0}}.items():
        for query in ("", "?labelSelector=n=a", "?fieldSelector=metadata.name=b", "?limit=1", "?labelSelector=n=none", "?dryRun=All"):
            yield case("edges/collection-%s-%s" % (label, query), *three, delete(SERVICES + query, {"kind": "DeleteOptions", "apiVersion": "v1", **options}), get(SERVICES))


def slices():
    e = {"addresses": ["10.1.2.3"], "conditions": {"ready": True}}
    changes = {
        "serving": {"endpoints": [{**e, "conditions": {"serving": True}}]}, "terminating": {"endpoints": [{**e, "conditions": {"ready": False, "serving": True, "terminating": True}}]}, "zone": {"endpoints": [{**e, "zone": "z", "nodeName": "n"}]}, "hostname": {"endpoints": [{**e, "hostname": "h"}]},
        "target": {"endpoints": [{**e, "targetRef": {"kind": "Pod", "name": "p", "namespace": "{ns}", "uid": "u"}}]}, "hints": {"endpoints": [{**e, "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]}}]}, "two": {"endpoints": [e, {**e, "addresses": ["10.1.2.4"]}]}, "ports-null": {"ports": None}, "ports-two": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP", "appProtocol": "http"}]},
        "labels": {"metadata": {"labels": {"kubernetes.io/service-name": "t", "x": "y"}}}, "managed-by": {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}}, "headless": {"metadata": {"labels": {"service.kubernetes.io/headless": ""}}}, "type": {"addressType": "IPv6"}, "none": {"endpoints": []}, "endpoints-null": {"endpoints": None},
    }
    for label, change in changes.items():
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("edges/slice-%s-%s" % (name, label), post(SLICES, endpoint_slice()), patch(SLICES + "/s-1", change, form), get(SLICES + "/s-1", headers=TABLE))
        yield case("edges/slice-apply-" + label, patch(SLICES + "/s-1?fieldManager=x", {k: v for k, v in endpoint_slice().items()}, APPLY), patch(SLICES + "/s-1?fieldManager=y", {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s-1"}, "addressType": "IPv4", **change}, APPLY))
        yield case("edges/slice-put-" + label, post(SLICES, endpoint_slice()), step("PUT", SLICES + "/s-1", base=0, merge=change))


def sequences():
    s = SERVICES + "/s"
    yield case("edges/old-version-put", post(SERVICES, service()), patch(s, {"metadata": {"labels": {"a": "b"}}}), step("PUT", s, base=0, merge={"metadata": {"labels": {"c": "d"}}}), step("PUT", s, base=1, merge={"metadata": {"labels": {"c": "d"}}}))
    yield case("edges/delete-and-make", post(SERVICES, service()), delete(s), post(SERVICES, service()), step("PUT", s, base=0), step("PUT", s, base=2))
    for path in ("", "/", "/x", "/x/", "/x?a=b"):
        for name in ("s", "s:80", "s:http", "http:s:80", "https:s:80", "s:99", "ftp:s:80", "s:", ":80", "none"):
            yield case("edges/proxy-%s-%s" % (name, path), post(SERVICES, service({"ports": [{"name": "http", "port": 80}]})), get(SERVICES + "/" + name + "/proxy" + path))
    for path in ("", "/x"):
        yield case("edges/proxy-endpoints-not-ready-" + path, post(SERVICES, service({"ports": [{"port": 80}]})), post(ENDPOINTS, endpoints([{"notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}])), get(s + "/proxy" + path))
        yield case("edges/proxy-external-" + path, post(SERVICES, service({"type": "ExternalName", "externalName": "a.example"})), get(s + "/proxy" + path))
    yield case("edges/cidr-in-use", post(CIDRS, {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "{ns}"}, "spec": {"cidrs": ["10.120.0.0/24"]}}), post(ADDRESSES, {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.120.0.9"}, "spec": {"parentRef": {"resource": "services", "namespace": "{ns}", "name": "x"}}}), delete(CIDRS + "/{ns}"), get(CIDRS + "/{ns}"), delete(ADDRESSES + "/10.120.0.9"), get(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}", ADDRESSES + "/10.120.0.9"])
    for manager in ("a", "b"):
        yield case("edges/apply-" + manager, patch(s + "?fieldManager=a", service({"ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}), APPLY), patch(s + "?fieldManager=" + manager, service({"ports": [{"port": 81, "protocol": "TCP"}]}), APPLY), patch(s + "?fieldManager=" + manager + "&force=true", service({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}], "selector": {"a": "c"}}), APPLY), patch(s + "?fieldManager=a", service({"ports": [{"port": 80, "protocol": "TCP"}]}), APPLY), get(s))
