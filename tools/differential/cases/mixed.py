"""Random combinations of fields and sequences of writes. The generator is seeded, so that each run sends the same requests.

Chosen node ports and cluster IPs are of the bands that dynamic allocation uses last, so that they seldom collide.
"""
import random

from .form import *

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
SEQUENCES = 900


def some(r, options, share=0.5):
    """A random value, or nothing."""
    return {} if r.random() > share else {options[0]: r.choice(options[1])}


def ports(r, with_node_ports=0.3):
    out = []
    for i in range(r.choice((0, 1, 1, 1, 2, 2, 3))):
        port = {"port": r.choice((80, 81, 82, 443))}
        port.update(some(r, ("name", ("a", "b", "c", "http", "")), 0.85))
        port.update(some(r, ("protocol", ("TCP", "UDP", "SCTP", "UDP")), 0.5))
        port.update(some(r, ("targetPort", (8080, "web", 0, "")), 0.3))
        port.update(some(r, ("nodePort", (30011, 30012, 30013, 0, 30014)), with_node_ports))
        port.update(some(r, ("appProtocol", ("http", "kubernetes.io/h2c", "")), 0.1))
        out.append(port)
    return out


FIELDS = {
    "type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "NodePort", "LoadBalancer"),
    "clusterIP": ("None", "", "10.96.0.61", "10.96.0.62", "fd00:10:96::61"),
    "ipFamilyPolicy": ("SingleStack", "PreferDualStack", "RequireDualStack"),
    "ipFamilies": (["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"], []),
    "externalIPs": (["192.0.2.1"], [], ["192.0.2.1", "2001:db8::1"], ["127.0.0.1"]),
    "externalTrafficPolicy": ("Cluster", "Local", "", "Local"),
    "internalTrafficPolicy": ("Cluster", "Local"),
    "sessionAffinity": ("None", "ClientIP", ""),
    "sessionAffinityConfig": ({"clientIP": {"timeoutSeconds": 60}}, {}, {"clientIP": {}}, {"clientIP": {"timeoutSeconds": 0}}),
    "allocateLoadBalancerNodePorts": (True, False),
    "loadBalancerClass": ("x.example/a", "x.example/b"),
    "loadBalancerIP": ("192.0.2.4", "", "2001:DB8::4"),
    "loadBalancerSourceRanges": (["192.0.2.0/24"], [], ["192.0.2.5/24"]),
    "healthCheckNodePort": (0, 30021, 30022),
    "publishNotReadyAddresses": (True, False),
    "trafficDistribution": ("PreferSameZone", "PreferSameNode", "PreferClose", ""),
    "selector": ({"a": "b"}, {}, {"c": "d"}),
    "externalName": ("a.example", "b.example", ""),
}
RARE = 0.12
FREQUENT = {"type": 0.8, "ipFamilyPolicy": 0.25, "externalTrafficPolicy": 0.35, "selector": 0.6, "sessionAffinity": 0.2, "allocateLoadBalancerNodePorts": 0.25}


def spec(r, nulls=0.0):
    out = {}
    for field, values in FIELDS.items():
        if r.random() < FREQUENT.get(field, RARE):
            out[field] = None if r.random() < nulls else r.choice(values)
    if "clusterIP" in out and r.random() < 0.3:
        out["clusterIPs"] = [out["clusterIP"]] if out["clusterIP"] else []
        if out["clusterIP"] == "10.96.0.61" and r.random() < 0.6:
            out["clusterIPs"].append("fd00:10:96::62")
    if out.get("type") == "ExternalName" and r.random() < 0.9:
        out["externalName"] = "a.example"
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if r.random() < 0.8:
                out.pop(field, None)
    if r.random() < 0.95:
        out["ports"] = ports(r, 0.35 if out.get("type") in ("NodePort", "LoadBalancer") else 0.08)
        if not out["ports"] and r.random() < 0.8:
            out["ports"] = [{"port": 80}]
        if r.random() < 0.85:
            for i, port in enumerate(out["ports"]):
                port["name"] = "abc"[i]
    return out


def status(r):
    ingress = []
    for _ in range(r.choice((0, 1, 1, 2))):
        entry = {}
        entry.update(some(r, ("ip", ("192.0.2.9", "2001:db8::9", "", "192.0.02.9")), 0.8))
        entry.update(some(r, ("hostname", ("a.example", "")), 0.3))
        entry.update(some(r, ("ipMode", ("VIP", "Proxy", "vip")), 0.4))
        entry.update(some(r, ("ports", ([{"port": 80, "protocol": "TCP"}], [], [{"port": 80, "protocol": "TCP", "error": "X"}])), 0.3))
        ingress.append(entry)
    out = {"loadBalancer": {"ingress": ingress}} if r.random() < 0.9 else {"loadBalancer": {}}
    if r.random() < 0.3:
        out["conditions"] = [{"type": "X", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]
    return out


def change(r, n):
    """A random write of the Service; `n` is the number of earlier steps."""
    s = SERVICES + "/s"
    dry = "?dryRun=All" if r.random() < 0.08 else ""
    kind = r.random()
    if kind < 0.25:
        return patch(s + dry, {"spec": spec(r, 0.15)})
    if kind < 0.4:
        return patch(s + dry, {"spec": spec(r, 0.1)}, STRATEGIC)
    if kind < 0.55:
        return step("PUT", s + dry, base=r.randrange(n), merge={"spec": spec(r, 0.1), "metadata": {"resourceVersion": None}})
    if kind < 0.7:
        return put(s + dry, service(spec(r)))
    if kind < 0.8:
        query = "?fieldManager=" + r.choice("xy") + ("&force=true" if r.random() < 0.5 else "") + ("&dryRun=All" if dry else "")
        return patch(s + query, service(spec(r)), APPLY)
    if kind < 0.88:
        return patch(s + "/status" + dry, {"status": status(r)}, r.choice((MERGE, STRATEGIC)))
    if kind < 0.92:
        return step("PUT", s + "/status" + dry, base=r.randrange(n), merge={"status": status(r), "spec": r.choice(({}, {"type": "ClusterIP"}, {"type": None})), "metadata": {"resourceVersion": None}})
    if kind < 0.95:
        return patch(s + "/status?fieldManager=z" + ("&dryRun=All" if dry else ""), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "status": status(r)}, APPLY)
    field = r.choice(list(FIELDS))
    return patch(s + dry, [r.choice(({"op": "remove", "path": "/spec/" + field}, {"op": "add", "path": "/spec/" + field, "value": r.choice(FIELDS[field])}, {"op": "replace", "path": "/spec/ports/0/port", "value": 90}, {"op": "remove", "path": "/spec/ports/0"}))], JSON_PATCH)


def cases():
    for number in range(SEQUENCES):
        r = random.Random("service-%d" % number)
        steps = [post(SERVICES, service(spec(r)))]
        for _ in range(r.choice((2, 3, 4, 5))):
            steps.append(change(r, len(steps)))
        steps.append(get(SERVICES + "/s", headers=TABLE) if r.random() < 0.5 else get(SERVICES + "/s"))
        yield case("mixed/service-%d" % number, *steps)
    for number in range(SEQUENCES // 3):
        yield two_services(random.Random("two-%d" % number), number)
    for number in range(SEQUENCES // 3):
        yield endpoint_slices(random.Random("slice-%d" % number), number)
    for number in range(SEQUENCES // 4):
        yield all_endpoints(random.Random("endpoints-%d" % number), number)
    for number in range(SEQUENCES // 6):
        yield watches(random.Random("watch-%d" % number), number)
    for number in range(SEQUENCES // 6):
        yield lists(random.Random("list-%d" % number), number)
    for number in range(SEQUENCES // 6):
        yield appliers(random.Random("apply-%d" % number), number)


def two_services(r, number):
    """Two Services that take and release the same addresses and ports."""
    def chosen():
        out = {"type": r.choice(("NodePort", "NodePort", "LoadBalancer", "ClusterIP")), "ports": []}
        for i in range(r.choice((1, 2))):
            port = {"name": "ab"[i], "port": r.choice((80, 81)), "protocol": r.choice(("TCP", "UDP"))}
            if out["type"] != "ClusterIP":
                port.update(some(r, ("nodePort", (30031, 30032)), 0.8))
            out["ports"].append(port)
        out.update(some(r, ("clusterIP", ("10.96.0.71", "10.96.0.72", "None")), 0.4))
        if out["type"] == "LoadBalancer":
            out.update(some(r, ("externalTrafficPolicy", ("Local",)), 0.6))
            out.update(some(r, ("healthCheckNodePort", (30031, 30032)), 0.5))
            out.update(some(r, ("allocateLoadBalancerNodePorts", (False,)), 0.4))
        return out
    steps = []
    for _ in range(r.choice((4, 5, 6))):
        name = r.choice("st")
        kind = r.random()
        if kind < 0.35 or not steps:
            steps.append(post(SERVICES, service(chosen(), name=name)))
        elif kind < 0.6:
            steps.append(put(SERVICES + "/" + name, service(chosen(), name=name)))
        elif kind < 0.85:
            steps.append(patch(SERVICES + "/" + name, {"spec": chosen()}))
        else:
            steps.append(delete(SERVICES + "/" + name))
    steps.append(get(SERVICES))
    return case("mixed/two-%d" % number, *steps)


def endpoint(r, kind):
    addresses = {"IPv4": ["10.1.2.3", "10.1.2.4"], "IPv6": ["fd00::1", "fd00::2"], "FQDN": ["a.example", "b.example"]}.get(kind, ["10.1.2.3"])
    out = {"addresses": r.choice((addresses[:1], addresses[:1], addresses, [], ["10.1.2.3"], ["fd00::00"], ["127.0.0.1"]))}
    out.update(some(r, ("conditions", ({}, {"ready": True}, {"ready": False, "serving": True, "terminating": True}, {"ready": None}, None)), 0.6))
    out.update(some(r, ("hostname", ("h", "", "H_", None)), 0.2))
    out.update(some(r, ("nodeName", ("n", "", "n.example", "N_", None)), 0.3))
    out.update(some(r, ("zone", ("z", "", None, "a b")), 0.3))
    out.update(some(r, ("hints", ({}, {"forZones": [{"name": "z"}]}, {"forZones": []}, {"forNodes": [{"name": "n"}]}, {"forZones": [{"name": "z"}, {"name": "z"}]}, None)), 0.3))
    out.update(some(r, ("targetRef", ({"kind": "Pod", "name": "p"}, {}, None)), 0.2))
    out.update(some(r, ("deprecatedTopology", ({"a": "b"}, {}, {"kubernetes.io/hostname": "n"}, None)), 0.15))
    return out


def slice_fields(r, kind):
    return {"endpoints": r.choice(([], None, [endpoint(r, kind)], [endpoint(r, kind)], [endpoint(r, kind), endpoint(r, kind)])),
            "ports": r.choice(([], None, [{"port": 80}], [{"name": "a", "port": 80, "protocol": "UDP"}], [{"name": "a"}, {"name": "b", "port": None}], [{"name": "a", "port": 1}, {"name": "a", "port": 2}], [{"name": None, "protocol": None, "appProtocol": r.choice((None, "x", ""))}], [{}]))}


def endpoint_slices(r, number):
    kind = r.choice(("IPv4", "IPv4", "IPv6", "FQDN"))
    path = SLICES + "/s-1"
    steps = [post(SLICES, {**endpoint_slice(address_type=kind), **slice_fields(r, kind)})]
    for _ in range(r.choice((1, 2, 3))):
        body = {k: v for k, v in slice_fields(r, kind).items() if r.random() < 0.7}
        if r.random() < 0.2:
            body["addressType"] = r.choice(("IPv4", "IPv6", "FQDN", None))
        if r.random() < 0.3:
            body["metadata"] = {"labels": r.choice(({"kubernetes.io/service-name": None}, {"x": "y"}, {"endpointslice.kubernetes.io/managed-by": "x"}))}
        form = r.random()
        if form < 0.4:
            steps.append(patch(path, body))
        elif form < 0.65:
            steps.append(patch(path, body, STRATEGIC))
        elif form < 0.85:
            steps.append(put(path, {**endpoint_slice(address_type=kind), **slice_fields(r, kind)}))
        else:
            steps.append(patch(path + "?fieldManager=" + r.choice("xy"), {**endpoint_slice(address_type=kind), **{k: v for k, v in slice_fields(r, kind).items() if v is not None}}, APPLY))
    steps.append(get(path, headers=TABLE) if r.random() < 0.5 else get(path))
    return case("mixed/slice-%d" % number, *steps)


def subset(r):
    def address():
        out = {"ip": r.choice(("192.0.2.1", "192.0.2.2", "2001:db8::1", "127.0.0.1", "2001:DB8::1"))}
        out.update(some(r, ("hostname", ("h", "")), 0.2))
        out.update(some(r, ("nodeName", ("n", "", None)), 0.2))
        out.update(some(r, ("targetRef", ({"kind": "Pod", "name": "p", "uid": "u"}, {}, None)), 0.2))
        return out
    out = {}
    out.update(some(r, ("addresses", ([address()], [address(), address()], [], None)), 0.8))
    out.update(some(r, ("notReadyAddresses", ([address()], [], None)), 0.4))
    out.update(some(r, ("ports", ([{"port": 80}], [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}], [], None, [{"name": "a", "port": 80}, {"port": 81}])), 0.8))
    return out


def all_endpoints(r, number):
    path = ENDPOINTS + "/s"
    def subsets():
        return r.choice(([], None, [subset(r)], [subset(r)], [subset(r), subset(r)]))
    steps = [post(ENDPOINTS, endpoints(subsets()))]
    for _ in range(r.choice((1, 2, 3))):
        form = r.random()
        if form < 0.35:
            steps.append(patch(path, {"subsets": subsets()}))
        elif form < 0.6:
            steps.append(patch(path, {"subsets": subsets()}, STRATEGIC))
        elif form < 0.85:
            steps.append(put(path, endpoints(subsets(), labels=r.choice(({}, {"a": "b"})))))
        else:
            steps.append(patch(path + "?fieldManager=x&force=true", endpoints(subsets() or []), APPLY))
    steps.append(get(path, headers=TABLE) if r.random() < 0.5 else get(path))
    return case("mixed/endpoints-%d" % number, *steps)


def watches(r, number):
    """Writes, and a watch of their events with selectors."""
    steps = [post(SERVICES, service({"clusterIP": "None", "ports": [{"port": 80}]}, labels={"x": "1"}))]
    s = SERVICES + "/s"
    for _ in range(r.choice((2, 3, 4))):
        steps.append(r.choice((
            patch(s, {"metadata": {"labels": {"x": r.choice(("1", "2", None))}}}), patch(s, {"spec": {"type": r.choice(("ClusterIP", "ExternalName")), "externalName": "a.example", "clusterIP": r.choice((None, "None"))}}),
            post(SERVICES, service({"clusterIP": "None", "ports": [{"port": 80}]}, name=r.choice("tu"), labels={"x": r.choice("12")})), delete(SERVICES + "/" + r.choice("stu")), patch(s, {}), patch(s, {"metadata": {"finalizers": ["x.example/y"]}}), patch(s, {"metadata": {"finalizers": None}}))))
    selector = r.choice(("", "&labelSelector=x=1", "&labelSelector=x!=1", "&labelSelector=!x", "&fieldSelector=metadata.name=s", "&fieldSelector=spec.type=ClusterIP", "&fieldSelector=metadata.name!=s&labelSelector=x", "&fieldSelector=spec.clusterIP=None"))
    version = r.choice(("0", "${0.metadata.resourceVersion}", "${0.metadata.resourceVersion}"))
    options = r.choice(("", "&allowWatchBookmarks=true", "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"))
    steps.append(watch(SERVICES + "?watch=1&timeoutSeconds=1&resourceVersion=" + version + selector + options, bookmarks=True))
    steps.append(get(SERVICES + "?" + selector.lstrip("&"), headers=TABLE))
    steps.append(patch(s, {"metadata": {"finalizers": None}}))
    return case("mixed/watch-%d" % number, *steps)


def lists(r, number):
    """Lists with combined options, and pages of them."""
    names = ["a", "b", "b-1", "c", "d"]
    steps = [post(SECRETS, secret(name=n, labels=r.choice(({"x": "1"}, {"x": "2", "y": ""}, {})))) for n in names]
    if r.random() < 0.4:
        steps.append(delete(SECRETS + "/" + r.choice(names)))
    def query():
        out = []
        out += r.choice(([], ["labelSelector=" + r.choice(("x=1", "x!=1", "x in (1,2)", "!x", "y", "y=", "x=1,y!=2", "x>1", "x<2"))]))
        out += r.choice(([], [], ["fieldSelector=" + r.choice(("metadata.name=b", "metadata.name!=b", "metadata.name=b,metadata.name!=c", "metadata.name=none", "type=Opaque", "metadata.namespace!={ns}"))]))
        out += r.choice(([], ["limit=%d" % r.choice((0, 1, 2, 3, 9))]))
        return out
    options = query()
    version = r.choice(([], [], ["resourceVersion=0"], ["resourceVersion=${4.metadata.resourceVersion}"], ["resourceVersion=${2.metadata.resourceVersion}", "resourceVersionMatch=Exact"], ["resourceVersion=${3.metadata.resourceVersion}", "resourceVersionMatch=NotOlderThan"]))
    headers = r.choice((None, None, TABLE, {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}))
    more = {"headers": headers} if headers else {}
    at = len(steps)
    steps.append(get(SECRETS + "?" + "&".join(options + version), **more))
    steps.append(get(SECRETS + "?" + "&".join(r.choice((options, query())) + ["continue=${%d.metadata.continue}" % at]), **more))
    steps.append(delete(SECRETS + "?" + "&".join(query())))
    steps.append(get(SECRETS))
    return case("mixed/list-%d" % number, *steps)


def appliers(r, number):
    """Field managers that apply and update parts of one Service."""
    def part():
        metadata, fields = {}, {}
        if r.random() < 0.5:
            metadata["labels"] = {k: r.choice("12") for k in r.sample("abc", r.choice((0, 1, 2)))}
        if r.random() < 0.3:
            metadata["annotations"] = {k: r.choice("12") for k in r.sample("abc", r.choice((0, 1)))}
        if r.random() < 0.2:
            metadata["finalizers"] = r.sample(["x.example/a", "x.example/b"], r.choice((0, 1, 2)))
        if r.random() < 0.7:
            fields["ports"] = [{"name": "p%d" % n, "port": n, "protocol": r.choice(("TCP", "TCP", "UDP")), **some(r, ("targetPort", (8080, "web")), 0.3)} for n in r.sample([80, 81, 82], r.choice((1, 1, 2)))]
        fields.update(some(r, ("selector", ({"a": "b"}, {"c": "d"}, {})), 0.4))
        fields.update(some(r, ("externalIPs", (["192.0.2.1"], ["192.0.2.1", "192.0.2.2"], [])), 0.2))
        fields.update(some(r, ("sessionAffinity", ("ClientIP", "None")), 0.2))
        return metadata, fields
    s = SERVICES + "/s"
    steps = [post(SERVICES, service())] if r.random() < 0.4 else []
    for _ in range(r.choice((3, 4, 5, 6))):
        metadata, fields = part()
        kind = r.random()
        if kind < 0.7:
            query = "?fieldManager=" + r.choice("xyz") + r.choice(("", "", "&force=true", "&force=false"))
            steps.append(patch(s + query, service(fields, **metadata), APPLY))
        elif kind < 0.85:
            steps.append(patch(s + "?fieldManager=" + r.choice("xu"), {"metadata": metadata, "spec": fields}, r.choice((MERGE, STRATEGIC))))
        elif kind < 0.95 and steps:
            steps.append(step("PUT", s + "?fieldManager=u", base=r.randrange(len(steps)), merge={"metadata": {**metadata, "resourceVersion": None}, "spec": fields}))
        else:
            steps.append(patch(s + "?fieldManager=u", {"metadata": {"managedFields": r.choice(([], [{}]))}}))
    steps.append(get(s, keep=["metadata.managedFields", "spec.ports"]))
    steps.append(patch(s, {"metadata": {"finalizers": None}}))
    return case("mixed/apply-%d" % number, *steps)
