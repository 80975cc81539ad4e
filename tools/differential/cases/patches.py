"""Patches: strict decoding, merge keys, operations, subresource status."""
from .form import *

QUERIES = ("", "?fieldValidation=Strict", "?fieldValidation=Warn", "?fieldValidation=Ignore", "?fieldValidation=Nope", "?fieldValidation=strict", "?fieldValidation=")
STATUS = SERVICES + "/s/status"


def lb(**more):
    return service({"type": "LoadBalancer", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}], **more})


def cases():
    yield from strict()
    yield from status()
    yield from json_patches()
    yield from strategic()
    yield from apply()


def strict():
    faults = {
        "unknown-top": ('{"nonsense":1}', [{"op": "add", "path": "/nonsense", "value": 1}]),
        "unknown-spec": ('{"spec":{"nonsense":1}}', [{"op": "add", "path": "/spec/nonsense", "value": 1}]),
        "unknown-port": ('{"spec":{"ports":[{"port":80,"nonsense":1}]}}', [{"op": "add", "path": "/spec/ports/0/nonsense", "value": 1}]),
        "unknown-two": ('{"spec":{"ports":[{"port":80,"b":1,"a":2}],"z":1},"metadata":{"y":1}}', [{"op": "add", "path": "/spec/z", "value": 1}, {"op": "add", "path": "/metadata/y", "value": 1}]),
        "duplicate-spec": ('{"spec":{"sessionAffinity":"None","sessionAffinity":"ClientIP"}}', '[{"op":"replace","op":"add","path":"/spec/sessionAffinity","value":"ClientIP"}]'),
        "duplicate-label": ('{"metadata":{"labels":{"a":"b","a":"c"}}}', '[{"op":"add","path":"/metadata/labels","value":{"a":"b","a":"c"}}]'),
        "duplicate-top": ('{"spec":{},"spec":{}}', '[{"op":"add","path":"/metadata/labels","value":{},"value":{"a":"b"}}]'),
        "unknown-and-duplicate": ('{"spec":{"x":1,"sessionAffinity":"None","sessionAffinity":"ClientIP"}}', '[{"op":"add","op":"add","path":"/spec/x","value":1}]'),
        "wrong-type": ('{"spec":{"ports":"x"}}', [{"op": "add", "path": "/spec/ports", "value": "x"}]),
        "wrong-type-number": ('{"spec":{"ports":[{"port":"80"}]}}', [{"op": "replace", "path": "/spec/ports/0/port", "value": "80"}]),
        "case": ('{"spec":{"SessionAffinity":"ClientIP"}}', [{"op": "add", "path": "/spec/SessionAffinity", "value": "ClientIP"}]),
    }
    for label, (text, operations) in faults.items():
        for query in QUERIES:
            name = "%s-%s" % (label, query[17:] or ("none" if not query else "empty"))
            for form, kind in ((MERGE, "merge"), (STRATEGIC, "strategic")):
                yield case("patches/strict-%s-%s" % (kind, name), post(SERVICES, service()), patch(SERVICES + "/s" + query, text, form))
            yield case("patches/strict-json-" + name, post(SERVICES, service()), patch(SERVICES + "/s" + query, operations, JSON_PATCH))
            whole = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]},' + text[1:]
            yield case("patches/strict-create-" + name, post(SERVICES + query, whole))
            yield case("patches/strict-put-" + name, post(SERVICES, service()), put(SERVICES + "/s" + query, whole))
            apply_text = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},' + text[1:]
            yield case("patches/strict-apply-" + name, post(SERVICES, service()), patch(SERVICES + "/s" + (query + "&" if query else "?") + "fieldManager=x&force=true", apply_text, APPLY))
            if not label.startswith("wrong"):
                yield case("patches/strict-slice-" + name, post(SLICES + query, '{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"s"},"addressType":"IPv4","endpoints":[],' + text[1:]))
        yield case("patches/strict-status-" + label, post(SERVICES, lb()), patch(STATUS + "?fieldValidation=Strict", text, MERGE))
    yaml = "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  name: t\nspec:\n  ports:\n  - port: 80\n    foo: 1\n"
    for query in QUERIES:
        yield case("patches/strict-yaml-" + query[1:], post(SERVICES + query, yaml, headers={"Content-Type": "application/yaml"}))
        yield case("patches/strict-yaml-apply-" + query[1:], patch(SERVICES + "/s" + (query + "&" if query else "?") + "fieldManager=x", yaml, APPLY))


def status():
    ingress = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "Proxy"}]
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    bodies = {
        "ingress": {"status": {"loadBalancer": {"ingress": ingress}}},
        "ingress-replace": {"status": {"loadBalancer": {"ingress": [{"hostname": "a.example"}]}}},
        "ingress-null": {"status": {"loadBalancer": {"ingress": None}}}, "ingress-item-null": {"status": {"loadBalancer": {"ingress": [None]}}}, "lb-null": {"status": {"loadBalancer": None}}, "status-null": {"status": None},
        "ingress-empty": {"status": {"loadBalancer": {"ingress": [{}]}}}, "ip-and-host": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "hostname": "a.example"}]}}},
        "host-bad": {"status": {"loadBalancer": {"ingress": [{"hostname": "A_b"}]}}}, "host-ip": {"status": {"loadBalancer": {"ingress": [{"hostname": "192.0.2.1"}]}}}, "mode-bad": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "x"}]}}},
        "mode-host": {"status": {"loadBalancer": {"ingress": [{"hostname": "a.example", "ipMode": "VIP"}]}}}, "ports": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP"}]}]}}},
        "port-error": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP", "error": "bad value"}]}]}}}, "port-bad": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": [{"port": 0, "protocol": "X"}]}]}}},
        "ip-leading-zero": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.02.1"}]}}}, "ip-mapped": {"status": {"loadBalancer": {"ingress": [{"ip": "::ffff:192.0.2.1"}]}}}, "ip-v6": {"status": {"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}}},
        "two-bad": {"status": {"loadBalancer": {"ingress": [{"ip": "x"}, {"ip": "y"}]}}}, "same-twice": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}]}}},
        "condition": {"status": {"conditions": [condition]}}, "condition-two": {"status": {"conditions": [condition, {**condition, "type": "Other"}]}}, "condition-twice": {"status": {"conditions": [condition, condition]}},
        "condition-change": {"status": {"conditions": [{**condition, "status": "False"}]}}, "condition-partial": {"status": {"conditions": [{"type": "Ready"}]}}, "condition-bad": {"status": {"conditions": [{**condition, "status": "x", "type": "a b", "reason": "r r"}]}},
        "condition-no-type": {"status": {"conditions": [{"status": "True"}]}}, "condition-null": {"status": {"conditions": None}}, "condition-delete": {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
        "condition-generation": {"status": {"conditions": [{**condition, "observedGeneration": -1}]}}, "condition-replace": {"status": {"conditions": [{"$patch": "replace"}, {**condition, "type": "New"}]}},
        "condition-reason-empty": {"status": {"conditions": [{**condition, "reason": ""}]}}, "condition-message-long": {"status": {"conditions": [{**condition, "message": "x" * 32769}]}}, "condition-time": {"status": {"conditions": [{**condition, "lastTransitionTime": None}]}},
        "spec-ignored": {"spec": {"type": "ClusterIP", "externalIPs": ["x"]}, "metadata": {"labels": {"a": "b"}}, "status": {"loadBalancer": {"ingress": ingress}}},
        "meta": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.example/y"]}}, "empty": {}, "unknown": {"status": {"x": 1}},
    }
    for label, body in bodies.items():
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            first = {"status": {"loadBalancer": {"ingress": ingress}, "conditions": [condition]}}
            yield case("patches/status-%s-%s" % (name, label), post(SERVICES, lb()), patch(STATUS, first), patch(STATUS, body, form), get(SERVICES + "/s"))
        yield case("patches/status-put-" + label, post(SERVICES, lb()), step("PUT", STATUS, base=0, merge=body))
        yield case("patches/status-apply-" + label, post(SERVICES, lb()), patch(STATUS + "?fieldManager=x&force=true", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, **body}, APPLY))
        yield case("patches/status-clusterip-" + label, post(SERVICES, service()), patch(STATUS, body, STRATEGIC))
        yield case("patches/status-create-" + label, post(SERVICES, {**lb(), **{k: v for k, v in body.items() if k == "status"}}))
        yield case("patches/status-cidr-" + label, post(CIDRS, {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "{ns}"}, "spec": {"cidrs": ["10.111.0.0/24"]}}),
                   patch(CIDRS + "/{ns}/status", {"status": {"conditions": [condition]}}), patch(CIDRS + "/{ns}/status", body, STRATEGIC), delete(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}"])
    yield case("patches/status-get", post(SERVICES, lb()), get(STATUS), delete(STATUS), post(STATUS, lb()), get(SERVICES + "/none/status"), put(SERVICES + "/none/status", lb()), patch(SERVICES + "/none/status", {}))
    yield case("patches/status-json", post(SERVICES, lb()), patch(STATUS, [{"op": "add", "path": "/status/loadBalancer/ingress", "value": [{"ip": "192.0.2.9"}]}], JSON_PATCH), patch(STATUS, [{"op": "replace", "path": "/status/loadBalancer/ingress/0/ip", "value": "x"}], JSON_PATCH))


def json_patches():
    operations = {
        "test": [{"op": "test", "path": "/spec/type", "value": "ClusterIP"}], "test-null": [{"op": "test", "path": "/spec/selector", "value": None}], "test-missing": [{"op": "test", "path": "/spec/none", "value": 1}],
        "test-number": [{"op": "test", "path": "/spec/ports/0/port", "value": 80.0}], "test-object": [{"op": "test", "path": "/spec/ports/0", "value": {"port": 80}}],
        "remove-missing": [{"op": "remove", "path": "/spec/none"}], "remove-index": [{"op": "remove", "path": "/spec/ports/5"}], "remove-negative": [{"op": "remove", "path": "/spec/ports/-1"}], "remove-dash": [{"op": "remove", "path": "/spec/ports/-"}],
        "replace-missing": [{"op": "replace", "path": "/spec/none", "value": 1}], "replace-missing-label": [{"op": "replace", "path": "/metadata/labels/a", "value": "b"}], "add-no-parent": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}],
        "add-dash": [{"op": "add", "path": "/spec/ports/-", "value": {"name": "x", "port": 99}}], "add-index": [{"op": "add", "path": "/spec/ports/1", "value": {"name": "x", "port": 99}}], "add-index-far": [{"op": "add", "path": "/spec/ports/9", "value": {"name": "x", "port": 99}}],
        "add-leading-zero": [{"op": "add", "path": "/spec/ports/01", "value": {"name": "x", "port": 99}}], "add-text-index": [{"op": "add", "path": "/spec/ports/x", "value": {"port": 99}}], "add-whole": [{"op": "add", "path": "", "value": {}}],
        "replace-whole": [{"op": "replace", "path": "", "value": service()}], "path-no-slash": [{"op": "add", "path": "spec", "value": 1}], "path-missing": [{"op": "add", "value": 1}], "path-number": [{"op": "add", "path": 5, "value": 1}],
        "value-missing": [{"op": "add", "path": "/spec/type"}], "op-missing": [{"path": "/spec/type", "value": "NodePort"}], "op-unknown": [{"op": "spam", "path": "/spec/type"}], "op-number": [{"op": 1, "path": "/spec/type"}], "op-upper": [{"op": "ADD", "path": "/spec/type", "value": "NodePort"}],
        "move": [{"op": "move", "from": "/metadata/annotations", "path": "/metadata/labels"}], "copy": [{"op": "copy", "from": "/spec/ports/0", "path": "/spec/ports/-"}], "copy-missing": [{"op": "copy", "from": "/spec/none", "path": "/spec/x"}], "move-no-from": [{"op": "move", "path": "/spec/x"}],
        "escape": [{"op": "add", "path": "/metadata/labels", "value": {}}, {"op": "add", "path": "/metadata/labels/x.example~1a", "value": "b"}], "escape-tilde": [{"op": "add", "path": "/metadata/annotations", "value": {"a~b": "c"}}, {"op": "remove", "path": "/metadata/annotations/a~0b"}],
        "empty": [], "null-item": [None], "text-item": ["x"], "object": {"op": "add"}, "label-null": [{"op": "add", "path": "/metadata/labels", "value": {"a": None}}], "extra": [{"op": "replace", "path": "/spec/type", "value": "NodePort", "x": 1}],
        "second-fails": [{"op": "replace", "path": "/spec/type", "value": "NodePort"}, {"op": "test", "path": "/spec/type", "value": "x"}], "name": [{"op": "replace", "path": "/metadata/name", "value": "t"}], "kind": [{"op": "replace", "path": "/kind", "value": "Pod"}],
        "kind-remove": [{"op": "remove", "path": "/kind"}], "metadata-remove": [{"op": "remove", "path": "/metadata"}], "spec-remove": [{"op": "remove", "path": "/spec"}], "invalid": [{"op": "replace", "path": "/spec/ports/0/port", "value": 0}], "type-wrong": [{"op": "replace", "path": "/spec/ports/0/port", "value": "x"}],
        "spec-null": [{"op": "replace", "path": "/spec", "value": None}], "remove-port": [{"op": "remove", "path": "/spec/ports/0"}], "through-scalar": [{"op": "add", "path": "/spec/type/x", "value": 1}],
    }
    for label, body in operations.items():
        yield case("patches/json-" + label, post(SERVICES, service()), patch(SERVICES + "/s", body, JSON_PATCH), get(SERVICES + "/s"))
    yield case("patches/json-missing-object", patch(SERVICES + "/none", [{"op": "add", "path": "/spec/x", "value": 1}], JSON_PATCH), patch(SERVICES + "/none", "{", JSON_PATCH), patch(SERVICES + "/none", "{", MERGE), patch(SERVICES + "/none", "{", STRATEGIC))
    yield case("patches/json-too-many", post(SERVICES, service()), patch(SERVICES + "/s", [{"op": "test", "path": "/kind", "value": "Service"}] * 10001, JSON_PATCH))


def strategic():
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    bodies = {
        "port-add": {"spec": {"ports": [{"name": "c", "port": 82}]}}, "port-change": {"spec": {"ports": [{"port": 80, "targetPort": 9}]}}, "port-no-key": {"spec": {"ports": [{"name": "c"}]}}, "port-delete": {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}},
        "port-delete-missing": {"spec": {"ports": [{"port": 99, "$patch": "delete"}]}}, "port-replace-list": {"spec": {"ports": [{"$patch": "replace"}, {"port": 99}]}}, "port-replace-item": {"spec": {"ports": [{"port": 80, "name": "z", "$patch": "replace"}]}},
        "port-bad-directive": {"spec": {"ports": [{"port": 80, "$patch": "x"}]}}, "port-order": {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}]}}, "port-order-and": {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}], "ports": [{"port": 80, "name": "q"}]}},
        "port-order-missing": {"spec": {"$setElementOrder/ports": [{"port": 99}], "ports": [{"port": 80, "name": "q"}]}}, "port-order-bad": {"spec": {"$setElementOrder/ports": "x"}}, "port-same-twice": {"spec": {"ports": [{"port": 80, "name": "x"}, {"port": 80, "name": "y"}]}},
        "selector-replace": {"spec": {"selector": {"$patch": "replace", "x": "y"}}}, "selector-delete": {"spec": {"selector": {"$patch": "delete"}}}, "selector-bad": {"spec": {"selector": {"$patch": "x"}}}, "selector-merge": {"spec": {"selector": {"a": None, "x": "y"}}},
        "retain": {"spec": {"$retainKeys": ["type", "ports"], "type": "NodePort"}}, "retain-bad": {"spec": {"$retainKeys": "x"}}, "retain-missing": {"spec": {"$retainKeys": ["ports"], "type": "NodePort"}}, "primitive-delete": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/y"]}},
        "primitive-order": {"metadata": {"$setElementOrder/finalizers": ["x.example/z", "x.example/y"], "finalizers": ["x.example/z"]}}, "finalizer-add": {"metadata": {"finalizers": ["x.example/z"]}}, "finalizer-same": {"metadata": {"finalizers": ["x.example/y"]}},
        "cluster-ips": {"spec": {"clusterIPs": ["10.96.7.7"]}}, "external-ips": {"spec": {"externalIPs": ["192.0.2.2"]}}, "families": {"spec": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}}, "source-ranges": {"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}},
        "spec-delete": {"spec": {"$patch": "delete"}}, "top-replace": {"$patch": "replace", "metadata": {"name": "s"}}, "top-delete": {"$patch": "delete"}, "unknown": {"spec": {"x": {"y": 1}}}, "unknown-list": {"spec": {"x": [{"y": 1}]}}, "list-for-map": {"spec": {"selector": []}}, "map-for-list": {"spec": {"ports": {}}},
        "string-for-list": {"spec": {"ports": "x"}}, "mixed-list": {"spec": {"ports": [{"port": 1}, "x"]}}, "owner": {"metadata": {"ownerReferences": [{"uid": "u", "apiVersion": "v1", "kind": "ConfigMap", "name": "n"}]}},
        "owner-delete": {"metadata": {"ownerReferences": [{"uid": "u", "$patch": "delete"}]}}, "affinity": {"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}}, "node-port": {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31999}]}},
    }
    for label, body in bodies.items():
        first = service({"ports": ports, "selector": {"a": "b", "c": "d"}, "externalIPs": ["192.0.2.1"]}, finalizers=["x.example/y"])
        yield case("patches/strategic-" + label, post(SERVICES, first), patch(SERVICES + "/s", body, STRATEGIC))
        yield case("patches/merge-" + label, post(SERVICES, first), patch(SERVICES + "/s", body, MERGE))
    e = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}
    for label, body in {"subsets": {"subsets": [{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 81}]}]}, "subsets-replace": {"subsets": [{"$patch": "replace"}, e]}, "subsets-empty": {"subsets": []}}.items():
        yield case("patches/strategic-endpoints-" + label, post(ENDPOINTS, endpoints([e])), patch(ENDPOINTS + "/s", body, STRATEGIC))
    for label, body in {"endpoints": {"endpoints": [{"addresses": ["10.0.0.9"]}]}, "ports": {"ports": [{"name": "x", "port": 1}]}, "labels": {"metadata": {"labels": {"x": None, "kubernetes.io/service-name": None}}}, "type": {"addressType": "IPv6"}}.items():
        yield case("patches/strategic-slice-" + label, post(SLICES, endpoint_slice()), patch(SLICES + "/s-1", body, STRATEGIC))
    for form in ("application/json", "text/plain", "application/merge-patch+json; charset=utf-8", "application/apply-patch+cbor", "application/apply-patch+json", "application/strategic-merge-patch+yaml", ""):
        yield case("patches/content-type-" + form, post(SERVICES, service()), patch(SERVICES + "/s", {"spec": {"type": "NodePort"}}, form))
        yield case("patches/content-type-missing-" + form, patch(SERVICES + "/none", {"spec": {"type": "NodePort"}}, form))
    for path in ("nodes/none", "namespaces/none", "pods/none"):
        yield case("patches/missing-" + path, patch("/api/v1/" + path, {}, MERGE))
    for label, text in (("bad", "{"), ("array", "[]"), ("text", '"x"'), ("trailing", '{} x'), ("two", "{}{}"), ("yaml", "spec: {type: NodePort}"), ("deep", '{"a":' * 200 + "1" + "}" * 200), ("nul", '{"a":"\u0000"}')):
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic"), (JSON_PATCH, "json"), (APPLY, "apply")):
            yield case("patches/text-%s-%s" % (name, label), post(SERVICES, service()), patch(SERVICES + "/s?fieldManager=x", text, form))


def apply():
    path = SERVICES + "/s"
    good = service({"ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}})
    for query in ("", "?fieldManager=", "?fieldManager=x", "?fieldManager=x&force=true", "?fieldManager=x&force=false", "?fieldManager=x&force=1", "?fieldManager=x&force=nope", "?fieldManager=" + "x" * 129, "?fieldManager=x&dryRun=All", "?fieldManager=x&dryRun=x", "?fieldManager=x&fieldValidation=Nope"):
        yield case("patches/apply-query-" + query[:40], patch(path + query, good, APPLY), get(path))
        yield case("patches/apply-merge-query-" + query[:40], post(SERVICES, service()), patch(path + query, {}, MERGE))
    yield case("patches/apply-conflict", patch(path + "?fieldManager=x", good, APPLY), patch(path + "?fieldManager=y", service({"ports": [{"port": 80, "protocol": "TCP", "name": "n"}], "selector": {"a": "c"}, "sessionAffinity": "ClientIP"}), APPLY), patch(path + "?fieldManager=y&force=true", service({"selector": {"a": "c"}}), APPLY), patch(path + "?fieldManager=x", good, APPLY))
    yield case("patches/apply-conflict-update", post(SERVICES + "?fieldManager=z", good), patch(path + "?fieldManager=y", service({"selector": {"a": "c"}, "type": "NodePort"}), APPLY))
    yield case("patches/apply-give-up", patch(path + "?fieldManager=x", good, APPLY), patch(path + "?fieldManager=x", service({"ports": [{"port": 80, "protocol": "TCP"}]}), APPLY), patch(path + "?fieldManager=x", service({}), APPLY))
    for label, body in {"no-name": {"metadata": {}}, "no-kind": {"kind": None}, "no-version": {"apiVersion": None}, "wrong-kind": {"kind": "Pod"}, "wrong-version": {"apiVersion": "v2"}, "managed": {"metadata": {"name": "s", "managedFields": [{"manager": "x"}]}}, "managed-empty": {"metadata": {"name": "s", "managedFields": []}},
                        "version": {"metadata": {"name": "s", "resourceVersion": "1"}}, "uid": {"metadata": {"name": "s", "uid": "x"}}, "namespace": {"metadata": {"name": "s", "namespace": "other"}}, "name-other": {"metadata": {"name": "t"}}, "generate": {"metadata": {"generateName": "t"}},
                        "port-no-protocol": {"spec": {"ports": [{"port": 80}, {"port": 81, "name": "x"}]}}, "port-no-port": {"spec": {"ports": [{"name": "x"}]}}, "port-duplicates": {"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]}}, "status": {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
                        "ips-duplicates": {"spec": {"externalIPs": ["192.0.2.1", "192.0.2.1"], "ports": [{"port": 80}]}}, "finalizer-twice": {"metadata": {"name": "s", "finalizers": ["x.example/y", "x.example/y"]}, "spec": {"ports": [{"port": 80}]}}, "wrong-type": {"spec": {"ports": "x"}}, "wrong-scalar": {"spec": {"ports": [{"port": "x"}]}}}.items():
        merged = {k: v for k, v in {**good, **body}.items() if v is not None}
        yield case("patches/apply-" + label, patch(path + "?fieldManager=x", merged, APPLY))
        yield case("patches/apply-existing-" + label, post(SERVICES, service()), patch(path + "?fieldManager=x", merged, APPLY))
    yield case("patches/apply-slice", patch(SLICES + "/s-1?fieldManager=x", endpoint_slice(), APPLY), patch(SLICES + "/s-1?fieldManager=y", endpoint_slice(endpoints=[{"addresses": ["10.0.0.7"]}]), APPLY))
    yield case("patches/apply-missing-namespace", patch("/api/v1/namespaces/none/services/s?fieldManager=x", good, APPLY))
