"""IPAddress and ServiceCIDR."""
from .form import *


def address(name, parent=True, **more):
    spec = {"parentRef": {"group": "", "resource": "services", "namespace": "x", "name": "y"}} if parent is True else parent
    return {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name, **more}, "spec": spec}


def cidr(name, cidrs, **more):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name, **more}, "spec": {"cidrs": cidrs}}


def cases():
    for name in ("10.111.1.1", "fd00:111::1", "FD00:111::2", "fd00:111:0:0::3", "10.111.01.1", "10.111.1", "x", "10.111.1.0", "::ffff:10.111.1.2", "10.111.1.3/32", "0.0.0.0", "127.0.0.1", "::", "224.0.0.1"):
        yield case("networking/address-name-" + name, post(ADDRESSES, address(name)), get(ADDRESSES + "/" + name), delete(ADDRESSES + "/" + name), cleanup=[ADDRESSES + "/" + name])
    parents = {"null": None, "empty": {}, "ref-null": {"parentRef": None}, "ref-empty": {"parentRef": {}}, "no-name": {"parentRef": {"resource": "services"}}, "no-resource": {"parentRef": {"name": "s"}}, "group": {"parentRef": {"group": "apps", "resource": "deployments", "name": "x"}}, "group-bad": {"parentRef": {"group": "A_", "resource": "R_/", "name": "n/n", "namespace": "N_"}},
               "name-slash": {"parentRef": {"resource": "services", "name": "a/b"}}, "name-dots": {"parentRef": {"resource": "services", "name": ".."}}, "unknown": {"parentRef": {"resource": "services", "name": "a", "uid": "u"}}, "namespace-percent": {"parentRef": {"resource": "services", "name": "a", "namespace": "a%b"}}}
    for label, spec in parents.items():
        yield case("networking/address-parent-" + label, post(ADDRESSES, address("10.111.2.1", spec)), cleanup=[ADDRESSES + "/10.111.2.1"])
    changes = {"parent": {"spec": {"parentRef": {"name": "z"}}}, "parent-null": {"spec": {"parentRef": None}}, "spec-null": {"spec": None}, "labels": {"metadata": {"labels": {"a": "b"}}}, "labels-given": {"metadata": {"labels": {"ipaddress.kubernetes.io/managed-by": "x", "ipaddress.kubernetes.io/ip-family": "IPv9"}}}, "same": {}, "unknown": {"spec": {"x": 1}}, "two": {"spec": {"parentRef": {"name": "", "resource": ""}}}}
    for label, change in changes.items():
        yield case("networking/address-change-" + label, post(ADDRESSES, address("10.111.3.1")), patch(ADDRESSES + "/10.111.3.1", change), get(ADDRESSES + "/10.111.3.1"), delete(ADDRESSES + "/10.111.3.1"), cleanup=[ADDRESSES + "/10.111.3.1"])
    yield case("networking/address-twice", post(ADDRESSES, address("10.111.4.1")), post(ADDRESSES, address("10.111.4.1")), get(ADDRESSES + "/10.111.4.1", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}), post(ADDRESSES, address("", generateName="x")), delete(ADDRESSES + "/10.111.4.1"), cleanup=[ADDRESSES + "/10.111.4.1"])
    yield case("networking/address-blocks-service", post(ADDRESSES, address("10.96.40.1")), post(SERVICES, service({"clusterIP": "10.96.40.1", "ports": [{"port": 80}]})), delete(ADDRESSES + "/10.96.40.1"), post(SERVICES, service({"clusterIP": "10.96.40.1", "ports": [{"port": 80}]})), cleanup=[ADDRESSES + "/10.96.40.1"])
    yield case("networking/address-of-service", post(SERVICES, service({"clusterIP": "10.96.40.2", "ports": [{"port": 80}]})), get(ADDRESSES + "/10.96.40.2"), post(ADDRESSES, address("10.96.40.2")), patch(ADDRESSES + "/10.96.40.2", {"metadata": {"labels": {"a": "b"}}}), patch(ADDRESSES + "/10.96.40.2", {"spec": {"parentRef": {"name": "z"}}}), get(ADDRESSES + "/10.96.40.2", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}), delete(ADDRESSES + "/10.96.40.2"), get(ADDRESSES + "/10.96.40.2"))
    ranges = {"one": ["10.111.0.0/24"], "six": ["fd00:111::/64"], "dual": ["10.111.0.0/24", "fd00:111::/64"], "dual-swapped": ["fd00:111::/64", "10.111.0.0/24"], "two-same": ["10.111.0.0/24", "10.112.0.0/24"], "three": ["10.111.0.0/24", "fd00:111::/64", "10.112.0.0/24"], "none": [], "null": None, "item-null": [None], "bad": ["x"], "host-bits": ["10.111.0.5/24"], "leading-zero": ["10.111.00.0/24"], "mapped": ["::ffff:10.111.0.0/120"], "upper": ["FD00:111::/64"], "not-canonical": ["fd00:111:0::/64"],
              "slash-32": ["10.111.0.1/32"], "slash-31": ["10.111.0.0/31"], "slash-30": ["10.111.0.0/30"], "slash-128": ["fd00:111::1/128"], "slash-0": ["0.0.0.0/0"], "slash-8": ["10.0.0.0/8"], "loopback": ["127.0.0.0/8"], "multicast": ["224.0.0.0/4"], "empty-text": [""], "ip": ["10.111.0.0"], "two-bad": ["x", "y"], "overlap-default": ["10.96.0.0/16"], "inside-default": ["10.96.5.0/24"], "space": [" 10.111.0.0/24"], "number": [5], "text": "10.111.0.0/24", "v6-48": ["fd00:111::/48"], "v6-112": ["fd00:111::/112"], "v6-8": ["fd00::/8"]}
    for label, value in ranges.items():
        yield case("networking/cidr-" + label, post(CIDRS, cidr("{ns}", value)), get(CIDRS + "/{ns}", headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}), patch(CIDRS + "/{ns}", {"spec": {"cidrs": ["10.113.0.0/24"]}}), delete(CIDRS + "/{ns}"), get(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}"])
    for label, value in (("add-family", ["10.111.0.0/24", "fd00:111::/64"]), ("same", ["10.111.0.0/24"]), ("null", None), ("empty", []), ("other", ["10.113.0.0/24"]), ("bad", ["x"]), ("swap", ["fd00:111::/64", "10.111.0.0/24"]), ("same-family", ["10.111.0.0/24", "10.112.0.0/24"]), ("three", ["10.111.0.0/24", "fd00:111::/64", "10.1.0.0/24"])):
        yield case("networking/cidr-change-" + label, post(CIDRS, cidr("{ns}", ["10.111.0.0/24"])), patch(CIDRS + "/{ns}", {"spec": {"cidrs": value}}), patch(CIDRS + "/{ns}", {"spec": {"cidrs": value}}, STRATEGIC), get(CIDRS + "/{ns}"), delete(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}"])
    yield case("networking/cidr-names", post(CIDRS, cidr("A_", ["10.111.0.0/24"])), post(CIDRS, cidr("", ["10.111.0.0/24"])), post(CIDRS, cidr("a.b.{ns}", ["10.111.0.0/24"])), post(CIDRS, cidr("a.b.{ns}", ["10.111.0.0/24"])), post(CIDRS + "?dryRun=All", cidr("c.{ns}", ["10.111.0.0/24"])), delete(CIDRS + "/a.b.{ns}"), cleanup=[CIDRS + "/a.b.{ns}"])
    yield case("networking/cidr-metadata", post(CIDRS, cidr("{ns}", ["10.111.0.0/24"], finalizers=["networking.k8s.io/service-cidr-finalizer"])), delete(CIDRS + "/{ns}"), get(CIDRS + "/{ns}"), patch(CIDRS + "/{ns}", {"metadata": {"finalizers": None}}), get(CIDRS + "/{ns}"), cleanup=[CIDRS + "/{ns}"])
    yield case("networking/kubernetes-cidr", get(CIDRS + "/kubernetes", keep=["spec"]), patch(CIDRS + "/kubernetes?dryRun=All", {"spec": {"cidrs": ["10.96.0.0/16"]}}, keep=["spec"]), patch(CIDRS + "/kubernetes", {"spec": {"cidrs": ["10.97.0.0/16"]}}))
    yield case("networking/cidr-beta", get("/apis/networking.k8s.io/v1beta1/servicecidrs"), get("/apis/networking.k8s.io/v1beta1/ipaddresses"), get("/apis/networking.k8s.io/v1alpha1/ipaddresses"))
