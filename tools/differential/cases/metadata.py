"""Metadata of new and changed objects."""
from .form import *

LONG = "a" * 63


def cases():
    for label, meta in {
        "resource-version": {"resourceVersion": "5"}, "resource-version-zero": {"resourceVersion": "0"}, "resource-version-empty": {"resourceVersion": ""},
        "resource-version-text": {"resourceVersion": "abc"}, "uid": {"uid": "11111111-2222-3333-4444-555555555555"}, "uid-text": {"uid": "x"},
        "generation": {"generation": 7}, "generation-negative": {"generation": -1}, "generation-text": {"generation": "x"},
        "self-link": {"selfLink": "/x"}, "creation": {"creationTimestamp": "2020-01-01T00:00:00Z"}, "creation-bad": {"creationTimestamp": "yesterday"},
        "creation-number": {"creationTimestamp": 5}, "creation-empty": {"creationTimestamp": ""}, "creation-offset": {"creationTimestamp": "2020-01-01T00:00:00+02:00"},
        "deletion": {"deletionTimestamp": "2020-01-01T00:00:00Z"}, "grace": {"deletionGracePeriodSeconds": 5}, "grace-negative": {"deletionGracePeriodSeconds": -5},
        "generate": {"name": "", "generateName": "x-"}, "generate-and-name": {"generateName": "y-"}, "generate-bad": {"name": "", "generateName": "Bad_"},
        "generate-long": {"name": "", "generateName": "a" * 70}, "generate-limit": {"name": "", "generateName": "a" * 58}, "generate-dot": {"name": "", "generateName": "a."},
        "generate-bad-and-name": {"generateName": "Bad_"}, "namespace-other": {"namespace": "other"}, "namespace-empty": {"namespace": ""}, "namespace-bad": {"namespace": "Bad_"},
        "cluster": {"clusterName": "x"}, "name-number": {"name": 5}, "name-empty": {"name": ""}, "name-slash": {"name": "a/b"}, "name-percent": {"name": "a%b"},
        "name-dot": {"name": "."}, "name-dots": {"name": ".."}, "name-digits": {"name": "1abc"}, "name-63": {"name": LONG}, "name-64": {"name": LONG + "a"}, "name-upper": {"name": "A"},
        "name-underscore": {"name": "a_b"}, "name-dash-end": {"name": "a-"}, "name-dash-start": {"name": "-a"}, "name-dotted": {"name": "a.b"}, "name-unicode": {"name": "ä"}, "name-space": {"name": "a b"},
        "managed": {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]},
        "managed-bad-operation": {"managedFields": [{"manager": "m", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]},
        "managed-bad-type": {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "V9", "fieldsV1": {}}]},
        "managed-bad-fields": {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": 1}}]},
        "managed-long": {"managedFields": [{"manager": "m" * 129, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]},
        "managed-subresource": {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}, "subresource": "x" * 300}]},
        "managed-empty-item": {"managedFields": [{}]}, "managed-empty": {"managedFields": []},
        "label-long-value": {"labels": {"a": "b" * 64}}, "label-63": {"labels": {"a": "b" * 63}}, "label-space": {"labels": {"a": "b c"}}, "label-key-long": {"labels": {"a" * 64: "b"}},
        "label-key-prefix": {"labels": {"x.example/a": "b"}}, "label-key-two": {"labels": {"a/b/c": "d"}}, "label-key-upper-prefix": {"labels": {"X.example/a": "b"}}, "label-key-empty-prefix": {"labels": {"/a": "b"}},
        "label-key-empty-name": {"labels": {"a/": "b"}}, "label-key-prefix-long": {"labels": {"a" * 254 + "/b": "c"}}, "labels-two-bad": {"labels": {"b b": "c c", "a a": "d d"}},
        "annotation-big": {"annotations": {"a": "b" * (256 * 1024)}}, "annotation-limit": {"annotations": {"a": "b" * (256 * 1024 - 1)}}, "annotation-key-upper": {"annotations": {"A.example/X": "y"}},
        "annotation-key-bad": {"annotations": {"a b": "c", "_": "d", "-": "e"}}, "annotation-key-two": {"annotations": {"a/b/c": "d"}},
        "finalizer": {"finalizers": ["x.example/y"]}, "finalizer-plain": {"finalizers": ["x"]}, "finalizer-orphan": {"finalizers": ["orphan"]}, "finalizer-foreground": {"finalizers": ["foregroundDeletion"]},
        "finalizer-both": {"finalizers": ["orphan", "foregroundDeletion"]}, "finalizer-empty": {"finalizers": [""]}, "finalizer-space": {"finalizers": ["a b"]}, "finalizer-twice": {"finalizers": ["x.example/y", "x.example/y"]},
        "finalizer-kubernetes": {"finalizers": ["kubernetes"]}, "finalizer-two-slash": {"finalizers": ["a/b/c"]}, "finalizer-upper": {"finalizers": ["X.example/Y"]},
        "finalizer-long": {"finalizers": ["a" * 64]},
        "owner": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "u"}]},
        "owner-controller-two": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": n, "uid": n, "controller": True} for n in "ab"]},
        "owner-twice": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "a"}] * 2},
        "owner-event": {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "a"}]},
        "owner-empty": {"ownerReferences": [{}]}, "owner-no-uid": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "a"}]},
        "owner-version-bad": {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "Secret", "name": "a", "uid": "a"}]},
        "owner-block": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "a", "blockOwnerDeletion": True}]},
        "owner-no-kind": {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]},
    }.items():
        for path, make in ((SERVICES, lambda m: service(None, **m)), (SECRETS, lambda m: secret(**m)), (ENDPOINTS, lambda m: endpoints([], **m))):
            kind = path.rsplit("/", 1)[1]
            yield case("metadata/%s-%s" % (kind, label), post(path, make(meta)), get(path + "?fieldSelector=metadata.namespace={ns}"))
        if label.startswith(("name", "generate")):
            continue
        yield case("metadata/put-" + label, post(SECRETS, secret()), put(SECRETS + "/c", secret(**meta)))
        yield case("metadata/merge-" + label, post(SECRETS, secret()), patch(SECRETS + "/c", {"metadata": meta}))
        yield case("metadata/strategic-" + label, post(SERVICES, service()), patch(SERVICES + "/s", {"metadata": meta}, STRATEGIC))
        yield case("metadata/apply-" + label, patch(SERVICES + "/s?fieldManager=x", service(None, **meta), APPLY))
    for label, change in (("name", {"name": "other"}), ("generate", {"generateName": "x-"}), ("namespace", {"namespace": "other"}), ("uid", {"uid": "x"}), ("version", {"resourceVersion": "1"}),
                          ("version-zero", {"resourceVersion": "0"}), ("version-text", {"resourceVersion": "x"}), ("name-empty", {"name": ""}), ("name-null", {"name": None})):
        for form, name in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield case("metadata/change-%s-%s" % (name, label), post(SERVICES, service()), patch(SERVICES + "/s", {"metadata": change}, form))
        yield case("metadata/change-put-" + label, post(SERVICES, service()), step("PUT", SERVICES + "/s", base=0, merge={"metadata": change}))
    for f in ("uid", "resourceVersion", "creationTimestamp", "namespace", "name", "generation", "managedFields"):
        yield case("metadata/put-without-" + f, post(SERVICES, service()), step("PUT", SERVICES + "/s", base=0, drop=["metadata." + f]))
        yield case("metadata/json-remove-" + f, post(SERVICES, service()), patch(SERVICES + "/s", [{"op": "remove", "path": "/metadata/" + f}], JSON_PATCH))
    for label, body in (("kind-other", {"kind": "Pod"}), ("version-other", {"apiVersion": "v2"}), ("kind-none", {"kind": None}), ("version-none", {"apiVersion": None}), ("kind-empty", {"kind": ""}),
                        ("group-other", {"apiVersion": "apps/v1"}), ("version-slashes", {"apiVersion": "a/b/c"}), ("kind-number", {"kind": 5}), ("version-number", {"apiVersion": 1}), ("kind-list", {"kind": "ServiceList"}),
                        ("kind-lower", {"kind": "service"}), ("metadata-list", {"metadata": []}), ("metadata-text", {"metadata": "x"}), ("spec-list", {"spec": []}), ("spec-text", {"spec": "x"})):
        merged = {k: v for k, v in {**service(), **body}.items() if v is not None}
        yield case("metadata/type-create-" + label, post(SERVICES, merged))
        yield case("metadata/type-put-" + label, post(SERVICES, service()), put(SERVICES + "/s", merged))
        yield case("metadata/type-merge-" + label, post(SERVICES, service()), patch(SERVICES + "/s", body))
        yield case("metadata/type-strategic-" + label, post(SERVICES, service()), patch(SERVICES + "/s", body, STRATEGIC))
        yield case("metadata/type-apply-" + label, patch(SERVICES + "/s?fieldManager=x", merged, APPLY))
        yield case("metadata/type-slice-" + label, post(SLICES, {k: v for k, v in {**endpoint_slice(), **body}.items() if v is not None}))
    for label, add, remove in (("add-while-deleting", ["x.example/y", "x.example/z"], None), ("remove-while-deleting", [], None), ("same-while-deleting", ["x.example/y"], None)):
        yield case("metadata/finalizers-" + label, post(SECRETS, secret(finalizers=["x.example/y"])), delete(SECRETS + "/c"),
                   patch(SECRETS + "/c", {"metadata": {"finalizers": add}}), get(SECRETS + "/c"), patch(SECRETS + "/c", {"metadata": {"finalizers": None}}), get(SECRETS + "/c"))
    yield case("metadata/delete-twice", post(SECRETS, secret(finalizers=["x.example/y"])), delete(SECRETS + "/c"), delete(SECRETS + "/c"),
               patch(SECRETS + "/c", {"metadata": {"deletionTimestamp": None}}), put(SECRETS + "/c", secret()), get(SECRETS + "/c"))
    for manager in ("", "x" * 128, "x" * 129, "a%0Ab", "ä", "a b"):
        yield case("metadata/field-manager-%d-%s" % (len(manager), manager[:3]), post(SECRETS + "?fieldManager=" + manager, secret()), get(SECRETS + "/c"))
