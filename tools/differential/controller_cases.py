"""Cases for the endpoints, endpointslice and endpointslice mirroring controllers. Services have the name `s`, and Pods are not started.

Pods are on the Node SHARED_NODE, which exists before the cases, unless a case names another one."""
from cases.form import *

OF_SERVICE = SLICES + "?labelSelector=kubernetes.io/service-name%3Ds"
SHARED_NODE = "shared-node"
ZONE = "topology.kubernetes.io/zone"


def settle(*paths, **more):
    return [step("SETTLE", path, **more) for path in paths or (OF_SERVICE, ENDPOINTS + "/s")]


def node(name, zone=None, **status):
    labels = {ZONE: zone} if zone else {}
    path = "/api/v1/nodes/{ns}-" + name
    made = post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{ns}-" + name, "labels": labels}})
    return [made, patch(path + "/status", {"status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}], **status}}, STRATEGIC)]


def running(name, ip, ready=True, labels=None, node=SHARED_NODE, spec=None, status=None, **metadata):
    """A Pod with an address: the object, and its status."""
    ips = ip if isinstance(ip, list) else [ip] if ip else []
    of_pod = {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}], **({"nodeName": node} if node else {}), **(spec or {})}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"} if labels is None else labels, **metadata}, "spec": of_pod}
    addresses = {"podIP": ips[0], "podIPs": [{"ip": i} for i in ips]} if ips else {}
    conditions = [] if ready is None else [{"type": "Ready", "status": ready if isinstance(ready, str) else str(ready)}]
    return [post(PODS, body), patch(PODS + "/" + name + "/status", {"status": {"phase": "Running", "conditions": conditions, **addresses, **(status or {})}}, STRATEGIC)]


def selecting(ports=None, labels=None, annotations=None, **spec):
    metadata = {k: v for k, v in (("labels", labels), ("annotations", annotations)) if v}
    ports = [{"name": "http", "port": 80, "targetPort": 8080}] if ports is None else ports
    return post(SERVICES, service({"selector": {"app": "a"}, "ports": ports, **spec}, **metadata))


def plain(ports=None, **spec):
    """A Service without a selector, as Endpoints that people write need it."""
    return post(SERVICES, service({"ports": [{"name": "http", "port": 80}] if ports is None else ports, **spec}))


HEADLESS = {"clusterIP": "None"}
DUAL = {"ipFamilyPolicy": "RequireDualStack"}
SIX = {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}
BOTH = ["10.9.0.1", "fd00:9::1"]
ONE = running("p", "10.9.0.1")


def cases():
    """Cases that do not influence each other."""
    for area in (pods, services, ports, families, repairs, hints, mirrored, packing, mixed):
        yield from area()


def pods():
    hosts = {"host": {"hostname": "h", "subdomain": "s"}, "other-subdomain": {"hostname": "h", "subdomain": "t"}, "subdomain-only": {"subdomain": "s"}, "hostname-only": {"hostname": "h"}, "network": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]}, "override": {"hostnameOverride": "o.example"}}
    for label, spec in hosts.items():
        for kind, more in (("headless", HEADLESS), ("cluster", {}), ("headless-not-ready", {**HEADLESS, "publishNotReadyAddresses": True})):
            yield case("pods/%s-%s" % (label, kind), selecting(**more), *running("p", "10.9.0.1", spec=spec), *settle())
    states = {"no-conditions": {"ready": None}, "unknown": {"ready": "Unknown"}, "not-ready": {"ready": False}, "no-address": {"ip": ""}, "pending": {"status": {"phase": "Pending"}}, "pending-not-ready": {"status": {"phase": "Pending"}, "ready": False}, "phase-unknown": {"status": {"phase": "Unknown"}}, "failed": {"status": {"phase": "Failed"}}, "failed-not-ready": {"status": {"phase": "Failed"}, "ready": False}, "succeeded": {"status": {"phase": "Succeeded"}, "ready": False},
              "failed-restart-never": {"status": {"phase": "Failed"}, "ready": False, "spec": {"restartPolicy": "Never"}}, "succeeded-on-failure": {"status": {"phase": "Succeeded"}, "ready": False, "spec": {"restartPolicy": "OnFailure"}}, "running-never": {"ready": False, "spec": {"restartPolicy": "Never"}}, "node-missing": {"node": "{ns}-none"}, "address-only": {"status": {"podIPs": [{"ip": "10.9.0.1"}]}}}
    for label, more in states.items():
        more = dict(more)
        ip = more.pop("ip", "10.9.0.1")
        for kind, spec in (("cluster", {}), ("publish", {"publishNotReadyAddresses": True}), ("headless", HEADLESS)):
            yield case("pods/state-%s-%s" % (label, kind), selecting(**spec), *running("p", ip, **more), *settle())
    for ready in (True, False):
        for publish in (True, False):
            for label, spec in (("cluster", {}), ("headless", HEADLESS)):
                yield case("pods/terminating-%s-%s-%s" % (ready, publish, label), selecting(publishNotReadyAddresses=publish, **spec), *running("p", "10.9.0.1", ready, finalizers=["x.example/y"]), *running("q", "10.9.0.2"), *settle(), delete(PODS + "/p"), *settle(), delete(PODS + "/q?gracePeriodSeconds=0"), *settle(), patch(PODS + "/p", {"metadata": {"finalizers": None}}), delete(PODS + "/p?gracePeriodSeconds=0"), *settle())
    yield case("pods/terminating-finished", selecting(), *running("p", "10.9.0.1", False, finalizers=["x.example/y"], status={"phase": "Succeeded"}), delete(PODS + "/p"), *settle(), patch(PODS + "/p", {"metadata": {"finalizers": None}}))
    yield case("pods/relabelled", selecting(), *ONE, *settle(), patch(PODS + "/p", {"metadata": {"labels": {"app": "b"}}}), *settle(), patch(PODS + "/p", {"metadata": {"labels": {"app": "a"}}}), *settle())
    yield case("pods/readdressed", selecting(), *ONE, *settle(), patch(PODS + "/p/status", {"status": {"podIP": "10.9.0.7", "podIPs": [{"ip": "10.9.0.7"}]}}), *settle(), patch(PODS + "/p/status", {"status": {"podIP": "", "podIPs": None}}), *settle())
    yield case("pods/recreated", selecting(), *ONE, *settle(), delete(PODS + "/p?gracePeriodSeconds=0"), *running("p", "10.9.0.1", False), *settle())
    yield case("pods/same-address", selecting(), *running("p", "10.9.0.1"), *running("q", "10.9.0.1"), *running("r", "10.9.0.1", False), *settle())
    yield case("pods/ready-later", selecting(), *running("p", "10.9.0.1", False), *running("q", "10.9.0.2"), *settle(), patch(PODS + "/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC), *settle(), patch(PODS + "/q/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC), *settle())
    yield case("pods/before-service", *ONE, *running("q", "10.9.0.2", False), selecting(), *settle())
    yield case("pods/other-namespace-labels", selecting(), *running("p", "10.9.0.1", labels={"app": "a", "x": "y"}), *running("q", "10.9.0.2", labels={"app": "ab"}), *running("r", "10.9.0.3", labels={}), *settle())
    yield case("pods/odd-address", selecting(), *running("p", "010.9.0.1"), *running("q", "0.0.0.0"), *running("r", "127.0.0.1"), *settle())


def services():
    s = SERVICES + "/s"
    yield case("services/external", selecting(type="ExternalName", externalName="a.example"), *ONE, *settle())
    yield case("services/to-external", selecting(), *ONE, *settle(), patch(s, {"spec": {"type": "ExternalName", "externalName": "a.example", "clusterIP": None, "clusterIPs": None}}), *settle(), patch(s, {"spec": {"type": "ClusterIP", "externalName": None}}), *settle())
    yield case("services/selector-removed", selecting(), *ONE, *settle(), patch(s, {"spec": {"selector": None}}), *settle(), patch(s, {"spec": {"selector": {"app": "a"}}}), *settle())
    yield case("services/selector-added", plain(), *ONE, *settle(OF_SERVICE), patch(s, {"spec": {"selector": {"app": "a"}}}), *settle())
    yield case("services/selector-empty", post(SERVICES, service({"selector": {}, "ports": [{"port": 80}]})), *ONE, *settle(OF_SERVICE))
    yield case("services/deleted", selecting(), *ONE, *settle(), delete(s), *settle(ENDPOINTS + "/s"))
    yield case("services/no-pods", selecting(), *settle())
    yield case("services/headless-no-ports", selecting(ports=[], **HEADLESS), *ONE, *running("q", "10.9.0.2", False), *settle())
    yield case("services/publish-changed", selecting(), *running("p", "10.9.0.1", False), *settle(), patch(s, {"spec": {"publishNotReadyAddresses": True}}), *settle(), patch(s, {"spec": {"publishNotReadyAddresses": None}}), *settle())
    given = {"a": "b", "endpointslice.kubernetes.io/managed-by": "me", "kubernetes.io/service-name": "other", "service.kubernetes.io/headless": "x", "endpoints.kubernetes.io/managed-by": "me", "service.kubernetes.io/service-proxy-name": "p"}
    for label, more in (("cluster", {}), ("headless", HEADLESS)):
        yield case("services/labels-" + label, selecting(labels=given, **more), *ONE, *settle(), patch(s, {"metadata": {"labels": {"a": "c", "endpoints.kubernetes.io/managed-by": None, "service.kubernetes.io/headless": None}}}), *settle(), patch(s, {"metadata": {"labels": None}}), *settle())
    yield case("services/annotations", selecting(annotations={"x": "y", "endpoints.kubernetes.io/last-change-trigger-time": "2020-01-01T00:00:00Z", "service.kubernetes.io/topology-mode": "Disabled"}), *ONE, *settle())
    yield case("services/tolerate-unready", selecting(annotations={"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}), *running("p", "10.9.0.1", False), *settle())
    yield case("services/recreated", selecting(), *ONE, *settle(), delete(s), selecting(**HEADLESS), *settle())
    yield case("services/deleting-with-finalizer", post(SERVICES, service({"selector": {"app": "a"}, "ports": [{"port": 80}]}, finalizers=["x.example/y"])), *ONE, *settle(), delete(s), *running("q", "10.9.0.2"), *settle())
    yield case("services/two", selecting(), post(SERVICES, service({"selector": {"app": "a"}, "ports": [{"port": 81}]}, name="t")), *ONE, *settle(), *settle(SLICES + "?labelSelector=kubernetes.io/service-name%3Dt", ENDPOINTS + "/t"))
    yield case("services/long-name", post(SERVICES, service({"selector": {"app": "a"}, "ports": [{"port": 80}]}, name="a" * 63)), *ONE, *settle(SLICES, ENDPOINTS + "/" + "a" * 63))


def ports():
    container = lambda **more: {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}], **more}
    lists = {"unnamed": [{"port": 80}], "named-target": [{"name": "a", "port": 80, "targetPort": "web"}], "named-none": [{"name": "a", "port": 80, "targetPort": "none"}], "some-none": [{"name": "a", "port": 80, "targetPort": "none"}, {"name": "b", "port": 81, "targetPort": "web"}], "wrong-protocol": [{"name": "a", "port": 80, "targetPort": "dns"}], "udp": [{"name": "a", "port": 53, "targetPort": "dns", "protocol": "UDP"}], "sctp": [{"name": "a", "port": 53, "protocol": "SCTP"}],
             "same-number": [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}], "same-target": [{"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81, "targetPort": 8080}], "order": [{"name": "z", "port": 1}, {"name": "a", "port": 2}, {"name": "m", "port": 3}], "app": [{"name": "a", "port": 80, "appProtocol": "kubernetes.io/h2c"}, {"name": "b", "port": 81, "appProtocol": "x.example/y"}], "app-empty": [{"name": "a", "port": 80, "appProtocol": ""}], "two-named": [{"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 53, "targetPort": "dns", "protocol": "UDP"}]}
    for label, value in lists.items():
        yield case("ports/" + label, selecting(ports=value), *running("p", "10.9.0.1", spec=container()), *running("q", "10.9.0.2", spec={"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 9090}]}]}), *running("r", "10.9.0.3", False, spec={"containers": [{"name": "c", "image": "i"}]}), *settle())
        yield case("ports/headless-" + label, selecting(ports=value, **HEADLESS), *running("p", "10.9.0.1", spec=container()), *settle())
    s = SERVICES + "/s"
    yield case("ports/changed", selecting(), *ONE, *settle(), patch(s, {"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8081}]}}), *settle(), patch(s, {"spec": {"ports": [{"name": "b", "port": 81, "targetPort": 8081, "appProtocol": "x.example/y"}, {"name": "c", "port": 82}]}}), *settle(), patch(s, {"spec": {"ports": [{"name": "b", "port": 81, "targetPort": "none"}]}}), *settle())
    sidecar = {"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 7070}]}, {"name": "j", "image": "i", "ports": [{"name": "init", "containerPort": 7071}]}]}
    for target in ("side", "init"):
        yield case("ports/container-" + target, selecting(ports=[{"name": "a", "port": 80, "targetPort": target}]), *running("p", "10.9.0.1", spec=container(**sidecar)), *settle())
    yield case("ports/headless-none", selecting(ports=[], **HEADLESS), *ONE, *settle(), patch(s, {"spec": {"ports": [{"name": "a", "port": 80}]}}), *settle(), patch(s, {"spec": {"ports": None}}), *settle())


def families():
    s = SERVICES + "/s"
    kinds = {"four": {}, "six": SIX, "dual": DUAL, "dual-six": {**DUAL, "ipFamilies": ["IPv6", "IPv4"]}, "headless-dual": {**DUAL, **HEADLESS}, "headless-six": {**SIX, **HEADLESS}, "headless-prefer": {**HEADLESS, "ipFamilyPolicy": "PreferDualStack"}}
    addresses = {"four": "10.9.0.1", "six": "fd00:9::1", "both": BOTH, "both-six": BOTH[::-1], "two-four": ["10.9.0.1", "10.9.0.2"], "six-long": "fd00:9:0:0:0:0:0:1", "mapped": "::ffff:10.9.0.1"}
    for label, more in kinds.items():
        for of_pod, ips in addresses.items():
            yield case("families/%s-%s" % (label, of_pod), selecting(**more), *running("p", ips), *settle())
    yield case("families/grow", selecting(), *running("p", BOTH), *settle(), patch(s, {"spec": {"ipFamilyPolicy": "RequireDualStack"}}), *settle(), patch(s, {"spec": {"ipFamilyPolicy": "SingleStack"}}), *settle())
    yield case("families/headless-grow", selecting(**HEADLESS), *running("p", BOTH), *settle(), patch(s, {"spec": {"ipFamilyPolicy": "RequireDualStack"}}), *settle(), patch(s, {"spec": {"ipFamilyPolicy": "SingleStack"}}), *settle())


def repairs():
    edited = SLICES + "/${%d.items.0.metadata.name}"
    at = 3
    e = ENDPOINTS + "/s"
    changes = {"endpoints": {"endpoints": [{"addresses": ["10.1.1.1"]}]}, "no-endpoints": {"endpoints": []}, "ports": {"ports": [{"name": "x", "port": 1}]}, "label-added": {"metadata": {"labels": {"x": "y"}}}, "managed-by": {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}}, "managed-by-none": {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": None}}}, "service-name": {"metadata": {"labels": {"kubernetes.io/service-name": "t"}}}, "owner": {"metadata": {"ownerReferences": None}}, "annotation": {"metadata": {"annotations": {"x": "y"}}},
               "node": {"endpoints": [{"addresses": ["10.9.0.1"], "nodeName": "z", "zone": "q", "hints": {"forZones": [{"name": "z"}]}}]}, "conditions": {"endpoints": [{"addresses": ["10.9.0.1"], "conditions": {"ready": False}}]}}
    for label, change in changes.items():
        yield case("repairs/slice-" + label, selecting(), *ONE, *settle(OF_SERVICE), patch(edited % at, change), *settle(), *settle(SLICES))
    yield case("repairs/slice-deleted", selecting(), *ONE, *settle(OF_SERVICE), delete(edited % at), *settle())
    of_endpoints = {"subsets": {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "x", "port": 1}]}]}, "none": {"subsets": None}, "label": {"metadata": {"labels": {"x": "y"}}}, "labels-none": {"metadata": {"labels": None}}, "managed-by": {"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "me"}}}, "headless": {"metadata": {"labels": {"service.kubernetes.io/headless": "x"}}}, "annotation": {"metadata": {"annotations": {"x": "y"}}}, "over-capacity": {"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}},
                    "over-capacity-other": {"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "x"}}}, "skip-mirror": {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}, "leader": {"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "x"}}}}
    for label, change in of_endpoints.items():
        yield case("repairs/endpoints-" + label, selecting(), *ONE, *settle(), patch(e, change), *settle())
        yield case("repairs/endpoints-headless-" + label, selecting(**HEADLESS), *ONE, *settle(), patch(e, change), *settle())
    yield case("repairs/endpoints-deleted", selecting(), *ONE, *settle(), delete(e), *settle())
    yield case("repairs/endpoints-before", post(ENDPOINTS, endpoints([{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 1}]}], labels={"x": "y"}, annotations={"a": "b"})), selecting(), *ONE, *settle())
    for manager in ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io", "me"):
        foreign = {**endpoint_slice("f"), "metadata": {"name": "f", "labels": {"kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": manager}}}
        yield case("repairs/foreign-slice-" + manager[:18], post(SLICES, foreign), selecting(), *ONE, *settle(SLICES))
        yield case("repairs/foreign-slice-late-" + manager[:18], selecting(), *ONE, *settle(OF_SERVICE), post(SLICES, foreign), *settle(SLICES))
        yield case("repairs/foreign-slice-no-service-" + manager[:18], post(SLICES, foreign), *settle(SLICES))
        yield case("repairs/foreign-slice-no-selector-" + manager[:18], plain(), post(SLICES, foreign), *settle(SLICES))
    six = {**endpoint_slice("f", "IPv6", [{"addresses": ["fd00:9::9"]}]), "metadata": {"name": "f", "labels": {"kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}}
    yield case("repairs/foreign-slice-six", post(SLICES, six), selecting(), *ONE, *settle(SLICES))


def hints():
    s = SERVICES + "/s"
    for distribution in ("PreferClose", "PreferSameZone", "PreferSameNode"):
        world = [*node("a", "za"), *node("b", "zb"), *node("c"), *running("p", "10.9.0.1", node="{ns}-a"), *running("q", "10.9.0.2", node="{ns}-b"), *running("r", "10.9.0.3", False, node="{ns}-a")]
        clean = ["/api/v1/nodes/{ns}-" + n for n in "abc"]
        yield case("hints/%s" % distribution, *world, selecting(trafficDistribution=distribution), *settle(), patch(s, {"spec": {"trafficDistribution": None}}), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-headless" % distribution, *world, selecting(trafficDistribution=distribution, **HEADLESS), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-no-zone" % distribution, *world, *running("t", "10.9.0.4", node="{ns}-c"), selecting(trafficDistribution=distribution), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-no-node" % distribution, *world, *running("t", "10.9.0.4", node=None), selecting(trafficDistribution=distribution), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-publish" % distribution, *world, selecting(trafficDistribution=distribution, publishNotReadyAddresses=True), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-zone-changed" % distribution, *world, selecting(trafficDistribution=distribution), *settle(OF_SERVICE), patch("/api/v1/nodes/{ns}-a", {"metadata": {"labels": {ZONE: "zc"}}}), patch(PODS + "/q/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC), *settle(OF_SERVICE), cleanup=clean)
        yield case("hints/%s-terminating" % distribution, *world, *running("t", "10.9.0.4", node="{ns}-b", finalizers=["x.example/y"]), selecting(trafficDistribution=distribution), delete(PODS + "/t"), *settle(OF_SERVICE), patch(PODS + "/t", {"metadata": {"finalizers": None}}), cleanup=clean)
        yield case("hints/%s-mirrored" % distribution, *node("a", "za"), plain(trafficDistribution=distribution), post(ENDPOINTS, endpoints([{"addresses": [{"ip": "10.9.0.1", "nodeName": "{ns}-a"}], "ports": [{"name": "http", "port": 80}]}])), *settle(OF_SERVICE), cleanup=["/api/v1/nodes/{ns}-a"])
    yield case("hints/node-missing", *node("a", "za"), *running("p", "10.9.0.1", node="{ns}-a"), *running("q", "10.9.0.2", node="{ns}-none"), selecting(), *settle(), cleanup=["/api/v1/nodes/{ns}-a"])
    yield case("hints/node-missing-publish", *node("a", "za"), *running("p", "10.9.0.1", node="{ns}-a"), *running("q", "10.9.0.2", node="{ns}-none"), selecting(publishNotReadyAddresses=True), *settle(), cleanup=["/api/v1/nodes/{ns}-a"])
    for publish in (True, False):
        yield case("hints/no-node-%s" % publish, *running("p", "10.9.0.1", node=None), *running("q", "10.9.0.2"), selecting(publishNotReadyAddresses=publish), *settle())
    yield case("hints/node-late", *running("q", "10.9.0.2", node="{ns}-late"), selecting(), *settle(), *node("late", "zl"), step("SLEEP", "", seconds=2), *settle(), cleanup=["/api/v1/nodes/{ns}-late"])


def mirrored():
    four, six = {"ip": "10.9.0.1"}, {"ip": "fd00:9::1"}
    p = {"name": "http", "port": 80}
    subset = {"addresses": [four], "ports": [p]}
    e, s = ENDPOINTS + "/s", SERVICES + "/s"
    lists = {"plain": [subset], "none": [], "no-ports": [{"addresses": [four]}], "not-ready": [{"notReadyAddresses": [four], "ports": [p]}], "both": [{"addresses": [four], "notReadyAddresses": [{"ip": "10.9.0.2"}], "ports": [p]}], "ready-and-not": [{"addresses": [four], "notReadyAddresses": [four], "ports": [p]}], "twice": [{"addresses": [four, four], "ports": [p]}], "families": [{"addresses": [four, six], "ports": [p]}], "six": [{"addresses": [six], "ports": [p]}],
             "two-subsets": [subset, {"addresses": [{"ip": "10.9.0.2"}], "ports": [{"name": "b", "port": 81}]}], "two-same-ports": [subset, {"addresses": [{"ip": "10.9.0.2"}], "ports": [p]}], "ports": [{"addresses": [four], "ports": [p, {"name": "z", "port": 1, "protocol": "UDP"}, {"name": "a", "port": 2, "appProtocol": "x.example/y"}]}], "unnamed": [{"addresses": [four], "ports": [{"port": 80}]}], "names": [{"addresses": [{**four, "hostname": "h", "nodeName": "{ns}-n", "targetRef": {"kind": "Pod", "name": "p", "namespace": "{ns}", "uid": "u"}}], "ports": [p]}],
             "many": [{"addresses": [{"ip": "10.9.%d.%d" % (i // 200, i % 200 + 1)} for i in range(250)], "ports": [p]}], "too-many": [{"addresses": [{"ip": "10.9.%d.%d" % (i // 200, i % 200 + 1)} for i in range(1010)], "ports": [p]}], "too-many-both": [{"addresses": [{"ip": "10.9.%d.%d" % (i // 200, i % 200 + 1)} for i in range(990)], "notReadyAddresses": [{"ip": "10.10.0.%d" % i} for i in range(1, 31)], "ports": [p]}], "same-address-other-target": [{"addresses": [{**four, "targetRef": {"kind": "Pod", "name": n}} for n in "ab"], "ports": [p]}]}
    for label, value in lists.items():
        pool = {"pool": True} if label in ("many", "too-many", "too-many-both") else {}
        yield case("mirrored/" + label, plain(), post(ENDPOINTS, endpoints(value)), *settle(OF_SERVICE, **pool))
        yield case("mirrored/headless-" + label, plain(**HEADLESS), post(ENDPOINTS, endpoints(value)), *settle(OF_SERVICE, **pool))
        if not pool:
            yield case("mirrored/changed-to-" + label, plain(), post(ENDPOINTS, endpoints([subset])), *settle(OF_SERVICE), patch(e, {"subsets": value}), *settle(OF_SERVICE))
    metadata = {"labels": {"labels": {"a": "b"}}, "annotations": {"annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}", "endpoints.kubernetes.io/last-change-trigger-time": "2020-01-01T00:00:00Z", "endpoints.kubernetes.io/over-capacity": "x"}}, "skip": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, "skip-false": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "false"}}, "skip-word": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "TRUE"}}, "skip-yes": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "yes"}},
                "leader": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, "managed": {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}, "managed-other": {"labels": {"endpoints.kubernetes.io/managed-by": "me"}}, "odd": {"labels": {"endpointslice.kubernetes.io/managed-by": "me", "kubernetes.io/service-name": "t", "service.kubernetes.io/headless": ""}}}
    for label, value in metadata.items():
        yield case("mirrored/meta-" + label, plain(), post(ENDPOINTS, endpoints([subset], **value)), *settle(SLICES))
        yield case("mirrored/meta-late-" + label, plain(), post(ENDPOINTS, endpoints([subset], labels={"q": "r"}, annotations={"s": "t"})), *settle(SLICES), patch(e, {"metadata": value}), *settle(SLICES), patch(e, {"metadata": {"labels": None, "annotations": None}}), *settle(SLICES))
    made = post(ENDPOINTS, endpoints([subset]))
    yield case("mirrored/no-service", made, *settle(SLICES))
    yield case("mirrored/service-late", made, plain(), *settle(SLICES))
    yield case("mirrored/service-deleted", plain(), made, *settle(SLICES), delete(s), *settle(ENDPOINTS))
    yield case("mirrored/service-again", plain(), made, *settle(SLICES), delete(s), plain(**HEADLESS), *settle(ENDPOINTS))
    yield case("mirrored/external", post(SERVICES, service({"type": "ExternalName", "externalName": "a.example"})), made, *settle(SLICES))
    yield case("mirrored/selector", plain(), made, *settle(SLICES), patch(s, {"spec": {"selector": {"app": "a"}}}), *settle(SLICES))
    yield case("mirrored/selector-empty", post(SERVICES, service({"selector": {}, "ports": [p]})), made, *settle(SLICES))
    yield case("mirrored/to-external", plain(), made, *settle(SLICES), patch(s, {"spec": {"type": "ExternalName", "externalName": "a.example", "clusterIP": None, "clusterIPs": None}}), *settle(SLICES))
    yield case("mirrored/deleted", plain(), made, *settle(SLICES), delete(e), *settle(SLICES))
    yield case("mirrored/slice-edited", plain(), made, *settle(SLICES), patch(SLICES + "/${2.items.0.metadata.name}", {"endpoints": []}), *settle(SLICES))
    yield case("mirrored/slice-relabelled", plain(), made, *settle(SLICES), patch(SLICES + "/${2.items.0.metadata.name}", {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}), *settle(SLICES))
    yield case("mirrored/slice-deleted", plain(), made, *settle(SLICES), delete(SLICES + "/${2.items.0.metadata.name}"), *settle(SLICES))
    yield case("mirrored/service-labels", post(SERVICES, service(None, labels={"x": "y"})), made, *settle(SLICES))
    yield case("mirrored/grow", plain(), made, *settle(SLICES), patch(e, {"subsets": [{"addresses": [{"ip": "10.9.%d.%d" % (i // 200, i % 200 + 1)} for i in range(150)], "ports": [p]}]}), *settle(SLICES, pool=True), patch(e, {"subsets": [subset]}), *settle(SLICES, pool=True))
    yield case("mirrored/dual-service", plain(ipFamilyPolicy="RequireDualStack"), post(ENDPOINTS, endpoints([{"addresses": [four, six], "ports": [p]}])), *settle(SLICES))


def packing():
    many = lambda count: [s for i in range(count) for s in running("p%d" % i, "10.9.%d.%d" % (i // 200, i % 200 + 1))]
    for count in (100, 101, 220):
        yield case("packing/%d" % count, selecting(), *many(count), *settle(OF_SERVICE, pool=True), *settle(ENDPOINTS + "/s"))
    removed = [delete(PODS + "/p%d?gracePeriodSeconds=0" % i) for i in range(0, 120, 2)]
    yield case("packing/shrink", *many(120), selecting(), *settle(OF_SERVICE, pool=True), *removed, *settle(OF_SERVICE, pool=True))
    yield case("packing/grow", *many(60), selecting(), *settle(OF_SERVICE, pool=True), *[s for i in range(60, 115) for s in running("p%d" % i, "10.9.1.%d" % i)], *settle(OF_SERVICE, pool=True))


def mixed():
    """Several Pods, ports and families at a time."""
    s = SERVICES + "/s"
    web = lambda number, **more: {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": number}]}], **more}
    named = [{"name": "http", "port": 80, "targetPort": "web"}]
    three = [*running("p", "10.9.0.1", spec=web(8080)), *running("q", "10.9.0.2", spec=web(9090)), *running("r", "10.9.0.3", False, spec=web(9090))]
    for label, more in (("cluster", {}), ("headless", HEADLESS), ("publish", {"publishNotReadyAddresses": True})):
        yield case("mixed/named-%s" % label, selecting(ports=named, **more), *three, *settle(), delete(PODS + "/q?gracePeriodSeconds=0"), *settle(), *running("q", "10.9.0.2", spec=web(8080)), *settle())
        yield case("mixed/named-then-number-%s" % label, *three, selecting(ports=named, **more), *settle(), patch(s, {"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 7070}]}}), *settle(), patch(s, {"spec": {"ports": named}}), *settle())
        yield case("mixed/two-named-%s" % label, *three, selecting(ports=named + [{"name": "b", "port": 81, "targetPort": 81}], **more), *settle(), patch(s, {"spec": {"ports": [{"name": "b", "port": 81, "targetPort": 81}]}}), *settle())
    for label, more in (("dual", DUAL), ("prefer", {"ipFamilyPolicy": "PreferDualStack"}), ("six", SIX), ("headless-dual", {**DUAL, **HEADLESS})):
        pods = [*running("p", BOTH, spec=web(8080)), *running("q", ["10.9.0.2"], spec=web(9090)), *running("r", ["fd00:9::3"], False, spec=web(9090)), *running("t", ["fd00:9::4", "10.9.0.4"], spec=web(8080, hostNetwork=True))]
        yield case("mixed/families-%s" % label, *pods, selecting(ports=named, **more), *settle(), delete(PODS + "/p?gracePeriodSeconds=0"), *settle(), patch(PODS + "/r/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC), *settle())
    for distribution in (None, "PreferSameZone", "PreferSameNode"):
        more = {"trafficDistribution": distribution} if distribution else {}
        clean = ["/api/v1/nodes/{ns}-" + n for n in "ab"]
        world = [*node("a", "za"), *node("b", "zb"), *running("p", BOTH, node="{ns}-a"), *running("q", ["10.9.0.2", "fd00:9::2"], node="{ns}-b"), *running("r", ["10.9.0.3", "fd00:9::3"], False, node="{ns}-b", finalizers=["x.example/y"])]
        yield case("mixed/distribution-%s-dual" % distribution, *world, selecting(**DUAL, **more), *settle(), patch(PODS + "/q/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC), *settle(), delete(PODS + "/r"), *settle(), patch(PODS + "/r", {"metadata": {"finalizers": None}}), cleanup=clean)
        yield case("mixed/node-deleted-%s" % distribution, *world, selecting(**more), *settle(), delete("/api/v1/nodes/{ns}-b"), patch(PODS + "/p/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC), *settle(), patch(PODS + "/r", {"metadata": {"finalizers": None}}), cleanup=clean)
        yield case("mixed/node-not-ready-%s" % distribution, *world, selecting(**more), *settle(), patch("/api/v1/nodes/{ns}-b/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC), *settle(), patch(PODS + "/r", {"metadata": {"finalizers": None}}), cleanup=clean)
    yield case("mixed/two-services", selecting(), post(SERVICES, service({"selector": {"app": "a", "v": "1"}, "ports": [{"port": 81}], **HEADLESS}, name="t")), *running("p", "10.9.0.1", labels={"app": "a", "v": "1"}), *running("q", "10.9.0.2"), *settle(SLICES, ENDPOINTS + "/s", ENDPOINTS + "/t"), patch(PODS + "/p", {"metadata": {"labels": {"v": "2"}}}), *settle(SLICES, ENDPOINTS + "/s", ENDPOINTS + "/t"))
    yield case("mixed/ports-of-protocols", selecting(ports=[{"name": n, "port": 53, "protocol": k, "targetPort": 53} for n, k in (("a", "UDP"), ("b", "TCP"), ("c", "SCTP"))]), *ONE, *settle(), patch(s, {"spec": {"ports": [{"name": "b", "port": 53, "protocol": "TCP", "appProtocol": "kubernetes.io/ws"}]}}), *settle())
    e, p = ENDPOINTS + "/s", {"name": "http", "port": 80}
    four = lambda i: {"ip": "10.9.0.%d" % i}
    lists = {"shared-address": [{"addresses": [four(1), four(2)], "ports": [p]}, {"addresses": [four(2), four(3)], "ports": [{"name": "b", "port": 81}]}], "ready-elsewhere": [{"addresses": [four(1)], "ports": [p]}, {"notReadyAddresses": [four(1)], "ports": [{"name": "b", "port": 81}]}], "order": [{"addresses": [four(3), four(1), four(2)], "ports": [{"name": "z", "port": 9}, p]}], "families-apart": [{"addresses": [{"ip": "fd00:9::1"}], "ports": [p]}, {"addresses": [four(1)], "ports": [p]}],
             "same-port-twice": [{"addresses": [four(1)], "ports": [p, {"name": "b", "port": 80}]}], "nodes": [{"addresses": [{**four(1), "nodeName": "n1"}, {**four(2), "nodeName": "n2", "hostname": "h"}], "ports": [p]}]}
    for label, value in lists.items():
        yield case("mixed/mirrored-%s" % label, plain(ports=[p, {"name": "b", "port": 81}]), post(ENDPOINTS, endpoints(value)), *settle(SLICES), patch(e, {"subsets": list(reversed(value))}), *settle(SLICES), patch(e, {"subsets": value[:1]}), *settle(SLICES), patch(e, {"subsets": None}), *settle(SLICES))
    yield case("mixed/mirrored-service-kinds", plain(ports=[p]), post(ENDPOINTS, endpoints(lists["order"])), *settle(SLICES), patch(s, {"spec": {"ports": [{"name": "other", "port": 9}]}}), *settle(SLICES), patch(s, {"metadata": {"labels": {"x": "y"}}}), *settle(SLICES))


def serial():
    """Cases that look at all Nodes, or that take long."""
    nodes = [s for n, z in (("a", "za"), ("b", "zb")) for s in node(n, z)]
    clean = ["/api/v1/nodes/{ns}-a", "/api/v1/nodes/{ns}-b"]
    spread = lambda a, b: [s for i in range(a + b) for s in running("p%d" % i, "10.9.0.%d" % (i + 1), node="{ns}-a" if i < a else "{ns}-b")]
    for mode in ("Auto", "auto", "Disabled", "x"):
        for a, b in ((3, 3), (4, 2), (5, 1)):
            yield case("hints/auto-%s-%d-%d" % (mode, a, b), *nodes, *spread(a, b), selecting(annotations={"service.kubernetes.io/topology-mode": mode}), *settle(OF_SERVICE), cleanup=clean)
    yield case("hints/auto-and-distribution", *nodes, *spread(3, 3), selecting(annotations={"service.kubernetes.io/topology-mode": "Auto"}, trafficDistribution="PreferSameNode"), *settle(OF_SERVICE), cleanup=clean)
    yield case("hints/auto-removed", *nodes, *spread(3, 3), selecting(annotations={"service.kubernetes.io/topology-mode": "Auto"}), *settle(OF_SERVICE), patch(SERVICES + "/s", {"metadata": {"annotations": None}}), *settle(OF_SERVICE), cleanup=clean)
    many = [s for i in range(1005) for s in running("p%d" % i, "10.9.%d.%d" % (i // 200, i % 200 + 1), i % 100 != 0)]
    yield case("packing/over-capacity", *many, selecting(), *settle(OF_SERVICE, pool=True), step("SETTLE", ENDPOINTS + "/s", keep=["metadata.annotations", "metadata.labels"]))
