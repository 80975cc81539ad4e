"""Null in the place of values, lists, maps and list items."""
from .form import *

SPEC = ["ports", "selector", "clusterIP", "clusterIPs", "type", "externalIPs", "sessionAffinity", "loadBalancerIP",
        "loadBalancerSourceRanges", "externalName", "externalTrafficPolicy", "healthCheckNodePort", "publishNotReadyAddresses",
        "sessionAffinityConfig", "ipFamilies", "ipFamilyPolicy", "allocateLoadBalancerNodePorts", "loadBalancerClass",
        "internalTrafficPolicy", "trafficDistribution"]
LISTS = ["ports", "clusterIPs", "externalIPs", "loadBalancerSourceRanges", "ipFamilies"]
PORT = ["name", "protocol", "appProtocol", "port", "targetPort", "nodePort"]
META = ["labels", "annotations", "finalizers", "ownerReferences", "managedFields", "name", "namespace", "uid", "resourceVersion",
        "generation", "creationTimestamp", "deletionTimestamp", "generateName", "selfLink", "deletionGracePeriodSeconds"]


def full():
    return {"type": "LoadBalancer", "ports": [{"name": "a", "port": 80, "targetPort": 81, "appProtocol": "http"}],
            "selector": {"a": "b", "c": "d"}, "externalIPs": ["192.0.2.1"], "loadBalancerSourceRanges": ["192.0.2.0/24"],
            "loadBalancerIP": "192.0.2.7", "loadBalancerClass": "x.example/y", "sessionAffinity": "ClientIP",
            "ipFamilyPolicy": "PreferDualStack", "trafficDistribution": "PreferClose"}


def cases():
    base = {"ports": [{"port": 80}]}
    for f in SPEC:
        yield case("nulls/create-" + f, post(SERVICES, service({**base, f: None})))
        yield case("nulls/merge-" + f, post(SERVICES, service(full())), patch(SERVICES + "/s", {"spec": {f: None}}), get(SERVICES + "/s"))
        yield case("nulls/strategic-" + f, post(SERVICES, service(full())), patch(SERVICES + "/s", {"spec": {f: None}}, STRATEGIC))
        yield case("nulls/put-" + f, post(SERVICES, service(full())), step("PUT", SERVICES + "/s", base=0, drop=["spec." + f]))
        yield case("nulls/apply-" + f, patch(SERVICES + "/s?fieldManager=x", service({**base, f: None}), APPLY))
        yield case("nulls/json-remove-" + f, post(SERVICES, service(full())),
                   patch(SERVICES + "/s", [{"op": "remove", "path": "/spec/" + f}], JSON_PATCH))
        yield case("nulls/json-null-" + f, post(SERVICES, service(full())),
                   patch(SERVICES + "/s", [{"op": "replace", "path": "/spec/" + f, "value": None}], JSON_PATCH))
        yield case("nulls/strict-" + f, post(SERVICES + "?fieldValidation=Strict", service({**base, f: None})))
    for f in LISTS:
        for form, label in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("nulls/%s-item-%s" % (label, f), post(SERVICES, service(full())), patch(SERVICES + "/s", {"spec": {f: [None]}}, form))
            yield case("nulls/%s-empty-%s" % (label, f), post(SERVICES, service(full())), patch(SERVICES + "/s", {"spec": {f: []}}, form))
        yield case("nulls/create-item-" + f, post(SERVICES, service({**base, f: [None]})))
        yield case("nulls/create-empty-" + f, post(SERVICES, service({**base, f: []})))
        yield case("nulls/apply-item-" + f, patch(SERVICES + "/s?fieldManager=x", service({**base, f: [None]}), APPLY))
        yield case("nulls/create-map-" + f, post(SERVICES, service({**base, f: {}})))
        yield case("nulls/create-string-" + f, post(SERVICES, service({**base, f: "x"})))
    for f in PORT:
        yield case("nulls/create-port-" + f, post(SERVICES, service({"ports": [{"name": "a", "port": 80, f: None}]})))
        yield case("nulls/strategic-port-" + f, post(SERVICES, service(full())),
                   patch(SERVICES + "/s", {"spec": {"ports": [{"port": 80, f: None}]}}, STRATEGIC))
        yield case("nulls/apply-port-" + f, patch(SERVICES + "/s?fieldManager=x", service({"ports": [{"name": "a", "port": 80, f: None}]}), APPLY))
    for f in META:
        yield case("nulls/create-meta-" + f, post(SERVICES, service(None, **{f: None})))
        yield case("nulls/merge-meta-" + f, post(SERVICES, service(None, labels={"a": "b"}, annotations={"a": "b"}, finalizers=["x.example/y"])),
                   patch(SERVICES + "/s", {"metadata": {f: None}}))
        yield case("nulls/strategic-meta-" + f, post(SERVICES, service(None, labels={"a": "b"}, annotations={"a": "b"}, finalizers=["x.example/y"])),
                   patch(SERVICES + "/s", {"metadata": {f: None}}, STRATEGIC))
        yield case("nulls/apply-meta-" + f, patch(SERVICES + "/s?fieldManager=x", service(None, **{f: None}), APPLY))
    for f in ("labels", "annotations", "selector"):
        for label, value in (("null", {"a": None}), ("number", {"a": 1}), ("bool", {"a": True}), ("list", {"a": []}), ("string", "x"), ("list-whole", []), ("empty-key", {"": "x"})):
            body = service({**base, "selector": value}) if f == "selector" else service(None, **{f: value})
            yield case("nulls/map-%s-%s" % (f, label), post(SERVICES, body))
            part = {"spec": {"selector": value}} if f == "selector" else {"metadata": {f: value}}
            yield case("nulls/map-merge-%s-%s" % (f, label), post(SERVICES, service()), patch(SERVICES + "/s", part))
            yield case("nulls/map-strategic-%s-%s" % (f, label), post(SERVICES, service()), patch(SERVICES + "/s", part, STRATEGIC))
            yield case("nulls/map-apply-%s-%s" % (f, label), patch(SERVICES + "/s?fieldManager=x", body, APPLY))
    for whole in ("spec", "status", "metadata", "kind", "apiVersion"):
        yield case("nulls/whole-" + whole, post(SERVICES, {**service(), whole: None}))
        for form, label in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("nulls/whole-%s-%s" % (label, whole), post(SERVICES, service()), patch(SERVICES + "/s", {whole: None}, form))
    for label, body in (("null", None), ("null-text", "null"), ("empty", ""), ("number", "1"), ("string", '"x"'), ("true", "true"), ("spaces", "  ")):
        yield case("nulls/body-" + label, step("POST", SERVICES, body))
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic"), (JSON_PATCH, "json"), (APPLY, "apply")):
            yield case("nulls/body-%s-%s" % (name, label), post(SERVICES, service()), patch(SERVICES + "/s?fieldManager=x", body, form))
    yield from of_endpoints()
    yield from of_slices()


def of_endpoints():
    good = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}
    for label, subsets in (("null", None), ("item", [None]), ("addresses", [{**good, "addresses": None}]), ("address-item", [{**good, "addresses": [None]}]),
                           ("ports", [{**good, "ports": None}]), ("port-item", [{**good, "ports": [None]}]), ("ports-empty", [{**good, "ports": []}]),
                           ("not-ready", [{**good, "notReadyAddresses": None}]), ("ip", [{**good, "addresses": [{"ip": None}]}]),
                           ("target", [{**good, "addresses": [{"ip": "192.0.2.1", "targetRef": None}]}]),
                           ("node", [{**good, "addresses": [{"ip": "192.0.2.1", "nodeName": None, "hostname": None}]}]),
                           ("map", {}), ("string", "x"), ("empty-item", [{}])):
        yield case("nulls/endpoints-" + label, post(ENDPOINTS, endpoints(subsets)))
        yield case("nulls/endpoints-merge-" + label, post(ENDPOINTS, endpoints([good])), patch(ENDPOINTS + "/s", {"subsets": subsets}))
        yield case("nulls/endpoints-strategic-" + label, post(ENDPOINTS, endpoints([good])), patch(ENDPOINTS + "/s", {"subsets": subsets}, STRATEGIC))
        yield case("nulls/endpoints-apply-" + label, patch(ENDPOINTS + "/s?fieldManager=x", endpoints(subsets), APPLY))


def of_slices():
    e = {"addresses": ["10.0.0.1"]}
    for label, change in (("endpoints", {"endpoints": None}), ("endpoint-item", {"endpoints": [None]}), ("ports", {"ports": None}), ("ports-item", {"ports": [None]}),
                          ("ports-empty", {"ports": []}), ("endpoints-empty", {"endpoints": []}),
                          ("addresses", {"endpoints": [{"addresses": None}]}), ("addresses-empty", {"endpoints": [{"addresses": []}]}), ("address-item", {"endpoints": [{"addresses": [None]}]}),
                          ("conditions", {"endpoints": [{**e, "conditions": None}]}), ("ready", {"endpoints": [{**e, "conditions": {"ready": None}}]}),
                          ("hints", {"endpoints": [{**e, "hints": None}]}), ("zones", {"endpoints": [{**e, "hints": {"forZones": None}}]}), ("zone-item", {"endpoints": [{**e, "hints": {"forZones": [None]}}]}),
                          ("nodes-empty", {"endpoints": [{**e, "hints": {"forNodes": []}}]}), ("target", {"endpoints": [{**e, "targetRef": None}]}),
                          ("topology", {"endpoints": [{**e, "deprecatedTopology": None}]}), ("address-type", {"addressType": None}),
                          ("port-fields", {"ports": [{"name": None, "port": None, "protocol": None, "appProtocol": None}]}), ("port-empty", {"ports": [{}]})):
        yield case("nulls/slice-" + label, post(SLICES, {**endpoint_slice(), **change}))
        yield case("nulls/slice-merge-" + label, post(SLICES, endpoint_slice()), patch(SLICES + "/s-1", change))
        yield case("nulls/slice-strategic-" + label, post(SLICES, endpoint_slice()), patch(SLICES + "/s-1", change, STRATEGIC))
        yield case("nulls/slice-apply-" + label, patch(SLICES + "/s-1?fieldManager=x", {**endpoint_slice(), **change}, APPLY))
