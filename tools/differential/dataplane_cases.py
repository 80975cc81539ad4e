"""Cases for node proxies, in the form of conformance/dataplane.json without expectations.

Each case has Services with names of its own, so that all cases share one cluster. Objects exist before the proxies start. Most cases
change nothing, because a change takes seconds; `changes()` has the others."""
import copy
import itertools

NODES = {"a": "node-a", "b": "node-b"}
ZONES = {"a": "za", "b": "zb"}
PODS = {"a1": ("10.244.1.2", "fd00:244:1::2"), "a2": ("10.244.1.3", "fd00:244:1::3"), "b1": ("10.244.2.2", "fd00:244:2::2"), "b2": ("10.244.2.3", "fd00:244:2::3"),
        "ha": ("172.30.0.11", "fd00:30::11"), "hb": ("172.30.0.12", "fd00:30::12")}
OUTSIDE = ("172.30.0.100", "fd00:30::100")
TERMINATING = {"ready": False, "serving": True, "terminating": True}
GONE = {"ready": False, "serving": False, "terminating": True}
UNREADY = {"ready": False, "serving": False, "terminating": False}
MANY = 24       # tries after which each of three backends has answered
FEW = 2         # tries where one backend can answer
SERVICE_NAME = "kubernetes.io/service-name"
HEALTH_HEADERS = ["content-type", "x-load-balancing-endpoint-weight", "x-content-type-options"]
numbers = itertools.count(1)


def endpoint(pod, six=False, conditions=None, node=True, zones=None, nodes=None, address=None):
    """An endpoint at a Pod (a1 to b2) or a node (ha, hb)."""
    place = pod[-1] if pod[0] == "h" else pod[0]
    made = {"addresses": [address or PODS[pod][six]], "conditions": {"ready": True} if conditions is None else conditions}
    if node:
        made.update(nodeName=NODES[place], zone=ZONES[place])
    hints = {k: [{"name": n} for n in v] for k, v in (("forZones", zones), ("forNodes", nodes)) if v}
    if hints:
        made["hints"] = hints
    return made


def slice_of(service, endpoints, ports=None, six=False, suffix="1", labels=None, kind=None):
    ports = [{"name": "p", "port": 8080, "protocol": "TCP"}] if ports is None else ports
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind or ("IPv6" if six else "IPv4"), "endpoints": endpoints, "ports": ports,
            "metadata": {"name": "%s-%s" % (service, suffix), "namespace": "dp", "labels": {SERVICE_NAME: service, **(labels or {})}}}


def port(name="p", number=80, protocol="TCP", target=8080, **more):
    return {"name": name, "port": number, "protocol": protocol, "targetPort": target, **more}


def service(name, ports=None, status=None, labels=None, families=None, **spec):
    """A Service. `families` is 4, 6, 46 or 64; none leaves the choice to the server."""
    if families:
        names = {"4": "IPv4", "6": "IPv6"}
        spec.update(ipFamilies=[names[c] for c in str(families)], ipFamilyPolicy="RequireDualStack" if families > 9 else "SingleStack")
    made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "dp", **({"labels": labels} if labels else {})}, "spec": {"ports": ports or [port()], **spec}}
    if status:
        made["status"] = {"loadBalancer": {"ingress": status}}
    return made


class Addresses:
    """External addresses of one Service: load balancer IPs and external IPs of both families."""
    def __init__(self):
        n = next(numbers)
        assert n < 1000, "the routed ranges have addresses for fewer than 1,000 Services"
        self.balancer = ("203.0.%d.%d" % (112 + n // 250, n % 250 + 1), "2001:db8:113::%x" % (0x1000 + n))
        self.external = ("198.51.%d.%d" % (100 + n // 250, n % 250 + 1), "2001:db8:51::%x" % (0x1000 + n))

    def ingress(self, *families, **more):
        return [{"ip": self.balancer[six], **more} for six in families]


# Ranges that the outside client must route through a node.
ROUTED = ["203.0.112.0/22", "198.51.100.0/22"]


def probe(client, to, number=80, six=False, proto="tcp", tries=None, **more):
    made = {"from": client, "to": to, "port": number, **more}
    if six:
        made["ip"] = 6
    if proto != "tcp":
        made["proto"] = proto
    if tries:
        made["tries"] = tries
    return made


def change(*changes):
    return {"change": list(changes)}


def merge(ref, patch, **more):
    return {"merge": patch, "of": ref, **more}


def case(label, objects, steps, about=None):
    return {"id": label, "about": about or label, "objects": objects, "steps": [copy.deepcopy(step) for step in steps]}


def everywhere(name, at, six=False, proto="tcp", tries=MANY, kinds=("cluster", "node", "balancer", "external"), number=80):
    """Probes from each kind of client to each kind of address of a Service."""
    of = dict(six=six, proto=proto, tries=tries)
    if "cluster" in kinds:
        for source in ("pod-a2", "pod-b2", "node-a", "node-b", "outside"):
            yield probe(source, "clusterIP of " + name, number, **of)
    if "node" in kinds:
        for source, to in (("outside", "node-a"), ("outside", "node-b"), ("pod-a2", "node-a"), ("pod-a2", "node-b"), ("node-a", "node-a"), ("node-b", "node-a")):
            yield probe(source, to, "nodePort of " + name, **of)
    for kind, addresses in (("balancer", at.balancer), ("external", at.external)):
        if kind in kinds:
            yield probe("outside", addresses[six], number, **of)
            yield probe("outside", addresses[six], number, via="node-b", **of)
            for source in ("pod-a2", "node-b"):
                yield probe(source, addresses[six], number, **of)


def cases():
    """All cases."""
    for area in (endpoints, types, ranges, modes, affinity, hints, health, slices, ports, nodes, hairpin, changes, flows):
        yield from area()


STATES = {
    "none": [], "here": [("a1", None)], "there": [("b1", None)], "both": [("a1", None), ("b1", None)], "unready": [("a1", UNREADY), ("b1", UNREADY)],
    "terminating-here": [("a1", TERMINATING)], "terminating-both": [("a1", TERMINATING), ("b1", TERMINATING)], "gone": [("a1", GONE), ("b1", GONE)],
    "terminating-here-ready-there": [("a1", TERMINATING), ("b1", None)], "unready-here-ready-there": [("a1", UNREADY), ("b1", None)],
    "unready-here-terminating-there": [("a1", UNREADY), ("b1", TERMINATING)], "serving-here": [("a1", {"ready": False, "serving": True, "terminating": False})],
    "ready-terminating": [("a1", {"ready": True, "serving": True, "terminating": True}), ("b1", None)], "no-conditions": [("a1", {})],
    "ready-not-serving": [("a1", {"ready": True, "serving": False})], "host-here": [("ha", None)], "host-there": [("hb", None)], "host-and-pod": [("ha", None), ("b1", None)],
    "terminating-host": [("ha", TERMINATING)], "three": [("a1", None), ("b1", None), ("b2", None)],
}
POLICIES = list(itertools.product(("Cluster", "Local"), repeat=2))


def endpoints():
    """States of endpoints with all traffic policies. The family and the protocol take turns."""
    turns = itertools.cycle(((False, "tcp"), (True, "tcp"), (False, "udp"), (True, "udp"), (False, "tcp")))
    for label, states in STATES.items():
        for external, internal in POLICIES:
            six, proto = next(turns)
            name, at = "e-%s-%s%s" % (label, external[0].lower(), internal[0].lower()), Addresses()
            found = [endpoint(pod, six, conditions) for pod, conditions in states]
            made = service(name, [port(protocol=proto.upper())], at.ingress(six), type="LoadBalancer", externalTrafficPolicy=external, internalTrafficPolicy=internal, externalIPs=[at.external[six]], families=6 if six else 4)
            ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
            yield case("endpoints/" + name, [made, slice_of(name, found, ports, six)], everywhere(name, at, six, proto, MANY if len(states) > 1 else FEW))


def types():
    """Types and families. Each address kind is probed in both families."""
    for families in (4, 6, 46, 64):
        for kind in ("ClusterIP", "NodePort", "LoadBalancer"):
            name, at = "t-%s-%d" % (kind.lower(), families), Addresses()
            status = at.ingress(0, 1) if kind == "LoadBalancer" else None
            made = service(name, status=status, type=kind, families=families, externalIPs=list(at.external))
            objects = [made] + [slice_of(name, [endpoint("a1", six), endpoint("b1", six)], six=six, suffix=str(six)) for six in (0, 1)]
            steps = []
            for six in (False, True):
                kinds = ["external", "balancer"] + (["cluster"] if ("6" if six else "4") in str(families) else []) + ([] if kind == "ClusterIP" else ["node"])
                steps += everywhere(name, at, six, kinds=kinds)
            yield case("types/" + name, objects, steps)
    name, at = "t-headless", Addresses()
    made = service(name, clusterIP="None", externalIPs=[at.external[0]])
    yield case("types/" + name, [made, slice_of(name, [endpoint("a1")])], everywhere(name, at, kinds=["external"]))


RANGES = {
    "all4": ["0.0.0.0/0"], "all6": ["::/0"], "all-both": ["0.0.0.0/0", "::/0"], "all-and-one": ["0.0.0.0/0", "172.30.0.101/32"], "outside": ["172.30.0.100/32"],
    "outside-both": ["172.30.0.100/32", "fd00:30::100/128"], "underlay": ["172.30.0.0/24", "fd00:30::/64"], "pods": ["10.244.0.0/16", "fd00:244::/32"], "one-pod": ["10.244.1.3/32", "fd00:244:1::3/128"],
    "node-a": ["172.30.0.11/32", "fd00:30::11/128"], "node-b": ["172.30.0.12/32", "fd00:30::12/128"], "overlapping": ["172.30.0.0/24", "172.30.0.100/32", "172.30.0.0/25"], "adjacent": ["172.30.0.100/31", "172.30.0.102/31"],
    "six-only": ["fd00:30::100/128"], "padded": [" 172.30.0.100/32 "], "nobody": ["192.0.2.0/24", "2001:db8:ffff::/64"], "loopback": ["127.0.0.0/8", "::1/128"], "halves": ["0.0.0.0/1", "128.0.0.0/1"],
    "all4-and-one6": ["0.0.0.0/0", "fd00:30::100/128"], "one4-and-all6": ["172.30.0.100/32", "::/0"],
}


def ranges():
    """Source ranges. The last cases allow the address of the Service itself, or combine ranges with other addresses."""
    def probes(name, at, families):
        for six in families:
            for source in ("outside", "pod-a2", "pod-b2", "node-a", "node-b"):
                yield probe(source, at.balancer[six], six=six)
            yield probe("outside", at.balancer[six], six=six, via="node-b")
            if not six:
                yield probe("outside", at.balancer[six], source="172.30.0.101")
                yield probe("outside", at.balancer[six], source="172.30.0.103")
        yield probe("outside", "node-b", "nodePort of " + name, source="172.30.0.101")
        yield probe("outside", at.external[0], source="172.30.0.101")
        yield probe("pod-b2", "clusterIP of " + name)

    for (label, allowed), policy in itertools.product(RANGES.items(), ("Cluster", "Local")):
        name, at = "r-%s-%s" % (label, policy.lower()), Addresses()
        made = service(name, status=at.ingress(0, 1), type="LoadBalancer", families=46, externalTrafficPolicy=policy, loadBalancerSourceRanges=allowed, externalIPs=[at.external[0]])
        yield case("ranges/" + name, [made] + [slice_of(name, [endpoint("a1", six)], six=six, suffix=str(six)) for six in (0, 1)], probes(name, at, (False, True)))
    for label, policy, found in (("empty", "Cluster", []), ("remote", "Local", ["b1"]), ("udp", "Cluster", ["a1"]), ("udp-empty", "Cluster", [])):
        name, at, proto = "r-of-" + label, Addresses(), "udp" if "udp" in label else "tcp"
        made = service(name, [port(protocol=proto.upper())], at.ingress(0), type="LoadBalancer", externalTrafficPolicy=policy, loadBalancerSourceRanges=["172.30.0.100/32", "10.244.1.0/24"])
        steps = [probe(source, at.balancer[0], proto=proto, **more) for source, more in (("outside", {}), ("outside", {"source": "172.30.0.101"}), ("outside", {"via": "node-b"}), ("pod-a2", {}), ("pod-b2", {}), ("node-a", {}))]
        steps += [probe("outside", at.balancer[0], 81, proto=proto), probe("outside", at.balancer[0], 81, proto=proto, source="172.30.0.101")]
        yield case("ranges/" + name, [made, slice_of(name, [endpoint(p) for p in found], [{"name": "p", "port": 8080, "protocol": proto.upper()}])], steps)
    name, at = "r-external-too", Addresses()
    made = service(name, status=at.ingress(0), type="LoadBalancer", loadBalancerSourceRanges=["172.30.0.100/32"], externalIPs=[at.balancer[0]])
    yield case("ranges/" + name, [made, slice_of(name, [endpoint("a1")])], [probe("outside", at.balancer[0]), probe("outside", at.balancer[0], source="172.30.0.101"), probe("pod-a2", at.balancer[0])])
    name, at = "r-two-addresses", Addresses()
    status = at.ingress(0) + [{"ip": at.external[0]}]
    yield case("ranges/" + name, [service(name, status=status, type="LoadBalancer", loadBalancerSourceRanges=["172.30.0.100/32"]), slice_of(name, [endpoint("a1")])],
               [probe("outside", a, source=s) for a in (at.balancer[0], at.external[0]) for s in ("172.30.0.100", "172.30.0.101")])


def modes():
    """Entries of the load balancer status."""
    for label, entries in (("proxy", [{"ipMode": "Proxy"}]), ("vip", [{"ipMode": "VIP"}]), ("proxy-with-ranges", [{"ipMode": "Proxy"}])):
        for policy in ("Cluster", "Local"):
            name, at = "m-%s-%s" % (label, policy.lower()), Addresses()
            spec = {"loadBalancerSourceRanges": ["172.30.0.101/32"]} if "ranges" in label else {}
            made = service(name, status=[{"ip": at.balancer[0], **e} for e in entries], type="LoadBalancer", externalTrafficPolicy=policy, **spec)
            yield case("modes/" + name, [made, slice_of(name, [endpoint("a1")])], everywhere(name, at, kinds=("node", "balancer")))
    name, at = "m-mixed", Addresses()
    status = [{"ip": at.balancer[0], "ipMode": "Proxy"}, {"ip": at.balancer[1], "ipMode": "VIP"}, {"hostname": "lb.example"}]
    made = service(name, status=status, type="LoadBalancer", families=46)
    yield case("modes/" + name, [made] + [slice_of(name, [endpoint("a1", six)], six=six, suffix=str(six)) for six in (0, 1)], [s for six in (False, True) for s in everywhere(name, at, six, kinds=("balancer",))])
    name, at = "m-no-node-ports", Addresses()
    for policy in ("Cluster", "Local"):
        name, at = "m-no-node-ports-" + policy.lower(), Addresses()
        made = service(name, status=at.ingress(0), type="LoadBalancer", allocateLoadBalancerNodePorts=False, externalTrafficPolicy=policy)
        yield case("modes/" + name, [made, slice_of(name, [endpoint("a1")])], everywhere(name, at, kinds=("cluster", "balancer")))
    name, at = "m-node-address", Addresses()
    made = service(name, [port(number=8097)], [{"ip": "172.30.0.12"}], type="LoadBalancer")
    yield case("modes/" + name, [made, slice_of(name, [endpoint("a1")])], [probe(s, "node-b", 8097) for s in ("outside", "pod-a2", "node-a", "node-b")])
    for policy in ("Cluster", "Local"):
        name = "m-external-node-" + policy.lower()
        made = service(name, [port(number=8095 if policy == "Local" else 8096)], type="NodePort", externalIPs=["172.30.0.12"], externalTrafficPolicy=policy)
        number = made["spec"]["ports"][0]["port"]
        yield case("modes/" + name, [made, slice_of(name, [endpoint("a1")])], [probe(s, "node-b", number) for s in ("outside", "pod-a2", "pod-b2", "node-a", "node-b")])
    name, at = "m-external-is-pod", Addresses()
    yield case("modes/" + name, [service(name, [port(number=8094)], externalIPs=["10.244.2.3"]), slice_of(name, [endpoint("a1")])], [probe(s, "pod-b2", 8094) for s in ("outside", "pod-a2", "node-a")])


def affinity():
    """Session affinity. A client gets the first endpoint before others exist."""
    others = [endpoint("a1"), endpoint("b1"), endpoint("b2")]
    for external, internal in POLICIES:
        for six in (False, True):
            name, at = "a-%s%s-%d" % (external[0].lower(), internal[0].lower(), 6 if six else 4), Addresses()
            made = service(name, status=at.ingress(six), type="LoadBalancer", families=6 if six else 4, sessionAffinity="ClientIP", externalTrafficPolicy=external, internalTrafficPolicy=internal, externalIPs=[at.external[six]])
            first, rest = [endpoint("a1", six)], [endpoint("a1", six), endpoint("a2", six), endpoint("b1", six)]
            of = dict(six=six, tries=MANY)
            sticky = [probe("pod-b2", at.balancer[six], **of), probe("node-a", "clusterIP of " + name, **of), probe("outside", "node-a", "nodePort of " + name, **of)]
            again = [probe("pod-b2", at.external[six], **of), probe("pod-b2", "node-b", "nodePort of " + name, **of), probe("outside", at.balancer[six], **of), probe("outside", "clusterIP of " + name, **of), probe("node-a", at.external[six], **of)]
            yield case("affinity/" + name, [made, slice_of(name, first, six=six)], sticky + [change(merge("EndpointSlice dp/%s-1" % name, {"endpoints": rest}))] + sticky + again)
    for label, steps in (
            ("expires", [change(merge("EndpointSlice dp/{}-1", {"endpoints": others})), change({"sleep": 3})]),
            ("kept", [change(merge("EndpointSlice dp/{}-1", {"endpoints": others}))]),
            ("endpoint-returns", [change(merge("EndpointSlice dp/{}-1", {"endpoints": [endpoint("b2")]})), change(merge("EndpointSlice dp/{}-1", {"endpoints": others}))]),
            ("removed-and-added", [change(merge("Service dp/{}", {"spec": {"sessionAffinity": "None"}})), change(merge("Service dp/{}", {"spec": {"sessionAffinity": "ClientIP"}}), merge("EndpointSlice dp/{}-1", {"endpoints": others}))]),
            ("timeout-changes", [change(merge("Service dp/{}", {"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}}}), merge("EndpointSlice dp/{}-1", {"endpoints": others}))]),
            ("port-number-changes", [change(merge("Service dp/{}", {"spec": {"ports": [port(number=82), port("q", 81)]}}), merge("EndpointSlice dp/{}-1", {"endpoints": others}))])):
        name = "a-" + label
        config = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 1}}} if label == "expires" else {}
        filled = [{"change": [{k: v.replace("{}", name) if isinstance(v, str) else v for k, v in c.items()} for c in s["change"]]} for s in steps]
        number = 82 if label == "port-number-changes" else 80
        clients = probe("outside", "clusterIP of " + name, tries=32, sources="alternate")
        last = probe("outside", "clusterIP of " + name, number, tries=32, sources="alternate")
        made = service(name, [port(), port("q", 81)], sessionAffinity="ClientIP", **config)
        both = [{"name": n, "port": 8080, "protocol": "TCP"} for n in "pq"]
        yield case("affinity/" + name, [made, slice_of(name, [endpoint("b1")], both)], [clients] + filled + [last, probe("outside", "clusterIP of " + name, 81, tries=32, sources="alternate")])


def hints():
    """Hints of zones and nodes."""
    kinds = {
        "zones": [("a1", dict(zones=["za"])), ("b1", dict(zones=["zb"]))], "crossed": [("a1", dict(zones=["zb"])), ("b1", dict(zones=["za"]))], "one-missing": [("a1", dict(zones=["za"])), ("b1", {})],
        "only-a": [("a1", dict(zones=["za"])), ("b1", dict(zones=["za"]))], "both-zones": [("a1", dict(zones=["za", "zb"])), ("b1", dict(zones=["zb"]))], "unknown": [("a1", dict(zones=["zx"])), ("b1", dict(zones=["zx"]))],
        "nodes": [("a1", dict(nodes=["node-a"])), ("b1", dict(nodes=["node-b"]))], "nodes-one-missing": [("a1", dict(nodes=["node-a"])), ("b1", {})], "nodes-and-zones": [("a1", dict(nodes=["node-a"], zones=["za"])), ("b1", dict(nodes=["node-a"], zones=["zb"]))],
        "nodes-partly": [("a1", dict(nodes=["node-a"], zones=["za"])), ("b1", dict(zones=["zb"]))], "unready-without": [("a1", dict(zones=["za"])), ("b1", dict(zones=["zb"])), ("b2", dict(conditions=UNREADY))],
        "terminating-without": [("a1", dict(zones=["za"])), ("b1", dict(zones=["zb"])), ("b2", dict(conditions=TERMINATING))], "ready-elsewhere": [("a1", dict(zones=["za"], conditions=TERMINATING)), ("b1", dict(zones=["zb"]))],
        "only-terminating": [("a1", dict(zones=["za"], conditions=TERMINATING)), ("b1", dict(zones=["zb"], conditions=TERMINATING))], "node-of-none": [("a1", dict(nodes=["node-c"], zones=["za"])), ("b1", dict(nodes=["node-c"], zones=["zb"]))],
    }
    distributions = itertools.cycle((None, "PreferClose", "PreferSameZone", "PreferSameNode"))
    for (label, found), (external, internal) in itertools.product(kinds.items(), (("Cluster", "Cluster"), ("Local", "Local"))):
        name, at, distribution = "h-%s-%s" % (label, external.lower()), Addresses(), next(distributions)
        spec = {"trafficDistribution": distribution} if distribution else {}
        made = service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy=external, internalTrafficPolicy=internal, **spec)
        yield case("hints/" + name, [made, slice_of(name, [endpoint(p, **more) for p, more in found])], everywhere(name, at, kinds=("cluster", "node", "balancer")))


def checks(name, families=(False,), path="/"):
    """Requests to a health check node port."""
    keys = ["service", "localEndpoints", "serviceProxyHealthy"]
    for six in families:
        for node in ("node-a", "node-b"):
            yield probe("outside", node, "healthCheckNodePort of " + name, six, http=path, keys=keys, headers=HEALTH_HEADERS)


def health():
    """Health check node ports, and the health of the proxy."""
    for label, states in STATES.items():
        name, at = "hc-" + label, Addresses()
        made = service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy="Local")
        yield case("health/" + name, [made, slice_of(name, [endpoint(pod, False, conditions) for pod, conditions in states])], checks(name))
    for families in (6, 46, 64):
        for four, six in (((), ("a1",)), (("a1", "a2"), ("a1",)), (("a1",), ("a1", "a2")), (("a1",), ())):
            name = "hc-%d-%d%d" % (families, len(four), len(six))
            made = service(name, type="LoadBalancer", externalTrafficPolicy="Local", families=families)
            yield case("health/" + name, [made, slice_of(name, [endpoint(p) for p in four], suffix="4"), slice_of(name, [endpoint(p, True) for p in six], six=True, suffix="6")], checks(name, (False, True)))
    two = [{"name": n, "port": p, "protocol": "TCP"} for n, p in (("p", 8080), ("q", 9376))]
    for label, ports, found in (("two-ports", two, [endpoint("a1")]), ("no-ports", [], [endpoint("a1")]), ("other-name", [{"name": "x", "port": 8080}], [endpoint("a1")]), ("no-number", [{"name": "p"}], [endpoint("a1")]), ("zero", [{"name": "p", "port": 0}], [endpoint("a1")]),
                                ("duplicate", None, [endpoint("a1"), endpoint("a1")]), ("host", None, [endpoint("ha")]), ("other-node-name", None, [{**endpoint("a1"), "nodeName": "node-b"}]), ("no-node", None, [endpoint("a1", node=False)])):
        name = "hc-" + label
        made = service(name, [port(), port("q", 81)], type="LoadBalancer", externalTrafficPolicy="Local")
        yield case("health/" + name, [made, slice_of(name, found, ports)], checks(name, path="/healthz"))
    name = "hc-two-slices"
    made = service(name, [port(), port("q", 81)], type="LoadBalancer", externalTrafficPolicy="Local")
    yield case("health/" + name, [made, slice_of(name, [endpoint("a1")]), slice_of(name, [endpoint("a1"), endpoint("a2")], [{"name": "q", "port": 9376}], suffix="2")], checks(name))
    name = "hc-proxy-name"
    made = service(name, labels={"service.kubernetes.io/service-proxy-name": "other"}, type="LoadBalancer", externalTrafficPolicy="Local")
    yield case("health/" + name, [made, slice_of(name, [endpoint("a1")])], checks(name))
    name = "hc-from-inside"
    made = service(name, type="LoadBalancer", externalTrafficPolicy="Local")
    where = [probe(s, t, "healthCheckNodePort of " + name, http="/x?y=z", keys=["localEndpoints"]) for s, t in (("pod-a2", "node-a"), ("pod-a2", "node-a-gw"), ("node-a", "loopback"), ("node-a", "node-b"))]
    yield case("health/" + name, [made, slice_of(name, [endpoint("a1")])], where)
    paths = [probe("outside", "node-a", 10256, http=p, headers=["content-type", "x-content-type-options"], keys=["healthy", "nodeEligible"]) for p in ("/healthz", "/livez", "/healthz/", "/healthz?verbose", "/", "/readyz", "/metrics", "/livez/x")]
    yield case("health/proxy", [], paths + [probe("outside", "node-b", 10256, True, http="/livez"), probe("node-a", "loopback", 10256, True, http="/healthz")])
    metrics = [probe("node-a", "loopback", 10249, http=p, headers=["content-type", "x-content-type-options"]) for p in ("/healthz", "/proxyMode", "/", "/x")]
    yield case("health/metrics", [], metrics + [probe("outside", "node-a", 10249, http="/proxyMode"), probe("node-a", "node-a", 10249, http="/metrics")])


def slices():
    """Slices: duplicates, ports, labels, families."""
    tcp = lambda name="p", number=8080: {"name": name, "port": number, "protocol": "TCP"}
    of = {
        "duplicates": [([endpoint("a1"), endpoint("a1"), endpoint("b1")], None)], "duplicate-unready-last": [([endpoint("a1"), endpoint("a1", conditions=UNREADY)], None)],
        "duplicate-unready-first": [([endpoint("a1", conditions=UNREADY), endpoint("a1")], None)], "duplicate-terminating-last": [([endpoint("a1"), endpoint("a1", conditions=TERMINATING)], None)],
        "duplicate-terminating-first": [([endpoint("a1", conditions=TERMINATING), endpoint("a1")], None)], "duplicate-terminating-slices": [([endpoint("a1", conditions=TERMINATING)], None), ([endpoint("a1")], None)],
        "duplicate-gone-slices": [([endpoint("a1", conditions=GONE)], None), ([endpoint("a1")], None)], "ports-differ": [([endpoint("a1")], None), ([endpoint("b1")], [tcp(number=9376)])],
        "same-address-two-ports": [([endpoint("a1")], None), ([endpoint("a1")], [tcp(number=9376)])], "names-differ": [([endpoint("a1")], None), ([endpoint("b1")], [tcp("q")])],
        "protocols-differ": [([endpoint("a1")], None), ([endpoint("b1")], [{"name": "p", "port": 8080, "protocol": "UDP"}])], "no-protocol": [([endpoint("a1")], [{"name": "p", "port": 8080}])],
        "no-name": [([endpoint("a1")], None), ([endpoint("b1")], [{"port": 8080}])], "empty-name": [([endpoint("a1")], None), ([endpoint("b1")], [tcp("")])], "no-number": [([endpoint("a1")], None), ([endpoint("b1")], [{"name": "p"}])],
        "no-ports": [([endpoint("a1")], None), ([endpoint("b1")], [])], "no-node": [([endpoint("a1", node=False)], None)], "no-node-and-node": [([endpoint("a1", node=False), endpoint("b1")], None)],
        "unknown-node": [([{**endpoint("a1"), "nodeName": "node-x"}], None)], "wrong-node": [([{**endpoint("a1"), "nodeName": "node-b"}], None)],
    }
    for (label, parts), policy in itertools.product(of.items(), ("Cluster", "Local")):
        name, at = "s-%s-%s" % (label, policy.lower()), Addresses()
        made = service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy=policy, internalTrafficPolicy=policy)
        yield case("slices/" + name, [made] + [slice_of(name, found, ports, suffix=str(i)) for i, (found, ports) in enumerate(parts)], everywhere(name, at, kinds=("cluster", "node")))
    for label, labels in (("proxy-name", {"service.kubernetes.io/service-proxy-name": "other"}), ("empty-proxy-name", {"service.kubernetes.io/service-proxy-name": ""}), ("headless", {"service.kubernetes.io/headless": ""}), ("managed", {"endpointslice.kubernetes.io/managed-by": "me"}), ("other-service", {SERVICE_NAME: "s-nobody"})):
        name = "s-label-" + label
        yield case("slices/" + name, [service(name), slice_of(name, [endpoint("a1")], labels=labels)], [probe("pod-a2", "clusterIP of " + name), probe("node-b", "clusterIP of " + name)])
    name = "s-unnamed-port"
    yield case("slices/" + name, [service(name, [{"port": 80, "targetPort": 8080}]), slice_of(name, [endpoint("a1")], [tcp("")]), slice_of(name, [endpoint("b1")], [{"port": 8080}], suffix="2"), slice_of(name, [endpoint("b2")], [tcp("p")], suffix="3")], [probe("pod-a2", "clusterIP of " + name, tries=MANY)])
    name = "s-fqdn"
    yield case("slices/" + name, [service(name), slice_of(name, [endpoint("a1")]), slice_of(name, [{"addresses": ["pod.example"], "conditions": {"ready": True}}], suffix="2", kind="FQDN")], [probe("pod-a2", "clusterIP of " + name)])
    for families in (4, 6, 46):
        name = "s-families-%d" % families
        yield case("slices/" + name, [service(name, families=families), slice_of(name, [endpoint("a1")], suffix="4"), slice_of(name, [endpoint("b1", True)], six=True, suffix="6")], [probe("pod-a2", "clusterIP of " + name, six=six) for six in (False, True) if ("6" if six else "4") in str(families)])


def ports():
    """Ports of Services."""
    name = "p-protocols"
    made = service(name, [port("t"), port("u", protocol="UDP", target=9376)], type="NodePort")
    found = [{"name": "t", "port": 8080, "protocol": "TCP"}, {"name": "u", "port": 9376, "protocol": "UDP"}]
    both = [("tcp", "t"), ("udp", "u")]
    yield case("ports/" + name, [made, slice_of(name, [endpoint("a1"), endpoint("b1")], found)], [probe("pod-a2", "clusterIP of " + name, proto=p, tries=MANY) for p, _ in both] + [probe("outside", "node-b", "nodePort of %s port %s" % (name, n), proto=p, tries=MANY) for p, n in both])
    name = "p-one-protocol"
    made = service(name, [port("t"), port("u", protocol="UDP", target=9376)], type="NodePort")
    yield case("ports/" + name, [made, slice_of(name, [endpoint("a1")], found[:1])], [probe(s, "clusterIP of " + name, proto=p) for p, _ in both for s in ("pod-a2", "node-a", "outside")] + [probe(s, "node-a", "nodePort of %s port %s" % (name, n), proto=p) for p, n in both for s in ("outside", "pod-a2", "node-a")])
    name, at = "p-other-numbers", Addresses()
    made = service(name, status=at.ingress(0), type="LoadBalancer", externalIPs=[at.external[0]])
    targets = ("clusterIP of " + name, at.balancer[0], at.external[0])
    yield case("ports/" + name, [made, slice_of(name, [endpoint("a1")])], [probe(s, t, 81, proto=p) for t in targets for s in ("pod-a2", "node-a", "outside") for p in ("tcp", "udp")] + [probe(s, t, 80, proto="udp") for t in targets for s in ("pod-a2", "outside")])
    name, at = "p-node-port-is-closed", Addresses()
    made = service(name, type="NodePort")
    yield case("ports/" + name, [made, slice_of(name, [endpoint("a1")])], [probe(s, t, "nodePort of " + name, proto=p) for s, t in (("outside", "node-a"), ("pod-a2", "node-b"), ("node-a", "node-a")) for p in ("udp",)] + [probe("pod-a2", "clusterIP of " + name, "nodePort of " + name), probe("outside", "pod-b1", "nodePort of " + name)])
    for proto in ("tcp", "udp"):
        for number in (8080, 9376, 53, 443, 65535):
            name = "p-%s-%d" % (proto, number)
            yield case("ports/" + name, [service(name, [port(number=number, protocol=proto.upper())]), slice_of(name, [endpoint("b1")], [{"name": "p", "port": 8080, "protocol": proto.upper()}])], [probe(s, "clusterIP of " + name, number, proto=proto) for s in ("pod-a2", "node-b")])
    first, second = "p-shared-one", "p-shared-two"
    at = Addresses()
    objects = [service(n, [port(number=number)], at.ingress(0), type="LoadBalancer", externalIPs=[at.external[0]]) for n, number in ((first, 80), (second, 81))]
    yield case("ports/p-shared", objects + [slice_of(first, [endpoint("a1")]), slice_of(second, [endpoint("b1")])], [probe(s, a, n) for a in (at.balancer[0], at.external[0]) for n in (80, 81, 82) for s in ("outside", "pod-a2")])


def nodes():
    """Addresses of node ports."""
    for families, policy in itertools.product((4, 6, 46), ("Cluster", "Local")):
        name = "n-%d-%s" % (families, policy.lower())
        made = service(name, [port(), port("u", 81, "UDP")], type="NodePort", families=families, externalTrafficPolicy=policy)
        found = [{"name": "p", "port": 8080, "protocol": "TCP"}, {"name": "u", "port": 8080, "protocol": "UDP"}]
        objects = [made] + [slice_of(name, [endpoint("a1", six)], found, six=six, suffix=str(six)) for six in (0, 1)]
        steps = []
        for six, (proto, of) in itertools.product((False, True), (("tcp", "p"), ("udp", "u"))):
            for source, to in (("outside", "node-a"), ("outside", "node-b"), ("outside", "node-a-gw"), ("pod-a2", "node-a-gw"), ("pod-a2", "node-a"), ("pod-b2", "node-a"), ("node-a", "node-a"), ("node-a", "loopback"), ("node-a", "node-a-gw"), ("node-a", "node-b")):
                steps.append(probe(source, to, "nodePort of %s port %s" % (name, of), six, proto))
        yield case("nodes/" + name, objects, steps)
    for policy in ("Cluster", "Local"):
        name = "n-empty-" + policy.lower()
        steps = [probe(s, t, "nodePort of " + name, proto=p) for p in ("tcp", "udp") for s, t in (("outside", "node-a"), ("outside", "node-a-gw"), ("pod-a2", "node-a"), ("node-a", "node-a"), ("node-a", "loopback"), ("node-a", "node-b"))]
        yield case("nodes/" + name, [service(name, type="NodePort", externalTrafficPolicy=policy)], steps)


def hairpin():
    """A Pod, or a node, that reaches itself."""
    for (external, internal), six, proto in itertools.product(POLICIES, (False, True), ("tcp", "udp")):
        name, at = "hp-%s%s-%d-%s" % (external[0].lower(), internal[0].lower(), 6 if six else 4, proto), Addresses()
        made = service(name, [port(protocol=proto.upper())], at.ingress(six), type="LoadBalancer", families=6 if six else 4, externalTrafficPolicy=external, internalTrafficPolicy=internal, externalIPs=[at.external[six]])
        of = dict(six=six, proto=proto)
        steps = [probe("pod-a1", t, **of) for t in ("clusterIP of " + name, at.balancer[six], at.external[six])] + [probe("pod-a1", n, "nodePort of " + name, **of) for n in ("node-a", "node-b")]
        yield case("hairpin/" + name, [made, slice_of(name, [endpoint("a1", six)], [{"name": "p", "port": 8080, "protocol": proto.upper()}], six)], steps)
    for policy, label in itertools.product(("Cluster", "Local"), ("host", "no-node", "wrong-node")):
        name, at = "hp-%s-%s" % (label, policy.lower()), Addresses()
        found = {"host": endpoint("ha"), "no-node": endpoint("a1", node=False), "wrong-node": {**endpoint("a1"), "nodeName": "node-b"}}[label]
        made = service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy=policy, externalIPs=[at.external[0]])
        client = "node-a" if label == "host" else "pod-a1"
        yield case("hairpin/" + name, [made, slice_of(name, [found])], [probe(client, t) for t in ("clusterIP of " + name, at.balancer[0], at.external[0])] + [probe(client, n, "nodePort of " + name) for n in ("node-a", "node-b")])


def filler(name, at):
    """Returns a function that inserts the name and the load balancer IP of a Service into a change."""
    def fill(value):
        if isinstance(value, str):
            return value.replace("{}", name).replace("{balancer}", at.balancer[0])
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return [fill(item) for item in value] if isinstance(value, list) else value
    return fill


def changes():
    """Changes of Services and slices, observed by new connections."""
    def changing(label, patches, kinds=("cluster", "node", "balancer"), start=("a1",), numbers=(80,), objects=(), **spec):
        name, at = "c-" + label, Addresses()
        made = service(name, status=at.ingress(0), **{"type": "LoadBalancer", **spec})
        fill = filler(name, at)
        steps, look = [], [p for n in numbers for p in everywhere(name, at, kinds=kinds, number=n, tries=MANY)]
        for patch in patches:
            steps += look[::2] + [{"change": fill(patch)}]
        return case("changes/" + name, [made, slice_of(name, [endpoint(p) for p in start])] + fill(list(objects)), steps + look)

    of_service = lambda patch, **more: merge("Service dp/{}", patch, **more)
    of_slice = lambda patch: merge("EndpointSlice dp/{}-1", patch)
    spec = lambda **fields: of_service({"spec": fields})
    yield changing("internal-policy", [[spec(internalTrafficPolicy="Local")], [spec(internalTrafficPolicy="Cluster")]], ("cluster",))
    yield changing("external-policy", [[spec(externalTrafficPolicy="Local")], [spec(externalTrafficPolicy="Cluster")]], ("node", "balancer"))
    yield changing("port-number", [[spec(ports=[port(number=81)])]], ("cluster", "balancer"), numbers=(80, 81))
    yield changing("port-name", [[spec(ports=[port("q")])], [of_slice({"ports": [{"name": "q", "port": 8080, "protocol": "TCP"}]})]], ("cluster", "balancer"))
    yield changing("slice-port", [[of_slice({"ports": [{"name": "p", "port": 9376, "protocol": "TCP"}]})]], ("cluster",))
    yield changing("protocol", [[spec(ports=[port(protocol="UDP")])], [spec(ports=[port()])]], ("cluster", "balancer"))
    yield changing("second-port", [[spec(ports=[port(), port("q", 81)])], [of_slice({"ports": [{"name": n, "port": 8080, "protocol": "TCP"} for n in "pq"]})], [spec(ports=[port("q", 81)])]], ("cluster",), numbers=(80, 81))
    yield changing("status", [[of_service({"status": {"loadBalancer": {"ingress": None}}}, status=True)]], ("balancer",))
    at_mode = lambda **more: [of_service({"status": {"loadBalancer": {"ingress": [{"ip": "{balancer}", **more}]}}}, status=True)]
    yield changing("ip-mode", [at_mode(ipMode="Proxy"), at_mode(ipMode="VIP"), at_mode(hostname="lb.example")], ("balancer", "node"))
    yield changing("type", [[spec(type="ClusterIP", externalTrafficPolicy=None)], [spec(type="NodePort")]], ("cluster", "balancer"))
    yield changing("slice-label", [[of_slice({"metadata": {"labels": {SERVICE_NAME: "{}-other"}}})], [of_slice({"metadata": {"labels": {SERVICE_NAME: "{}"}}})]], ("cluster",))
    yield changing("slice-proxy-name", [[of_slice({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "x"}}})], [of_slice({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": None}}})]], ("cluster",))
    yield changing("slice-headless", [[of_slice({"metadata": {"labels": {"service.kubernetes.io/headless": ""}}})], [of_slice({"metadata": {"labels": {"service.kubernetes.io/headless": None}}})]], ("cluster",))
    yield changing("slice-deleted", [[{"delete": "EndpointSlice dp/{}-1"}], [{"create": slice_of("{}", [endpoint("b1")])}]], ("cluster", "node"))
    yield changing("slice-moves", [[{"create": slice_of("{}", [endpoint("a1")], suffix="2")}], [{"delete": "EndpointSlice dp/{}-1"}]], ("cluster",))
    yield changing("ranges", [[spec(loadBalancerSourceRanges=["10.244.1.0/24"])], [spec(loadBalancerSourceRanges=["0.0.0.0/0"])], [spec(loadBalancerSourceRanges=None)]], ("balancer",))
    yield changing("node-zone", [[merge("Node node-a", {"metadata": {"labels": {"topology.kubernetes.io/zone": "zb"}}}), of_slice({"endpoints": [endpoint("a1", zones=["za"]), endpoint("b1", zones=["zb"])]})], [merge("Node node-a", {"metadata": {"labels": {"topology.kubernetes.io/zone": None}}})], [merge("Node node-a", {"metadata": {"labels": {"topology.kubernetes.io/zone": "za"}}})]], ("cluster",))
    yield changing("conditions", [[of_slice({"endpoints": [endpoint("a1", conditions=TERMINATING)]})], [of_slice({"endpoints": [endpoint("a1", conditions=GONE)]})], [of_slice({"endpoints": [endpoint("a1")]})]], ("cluster", "node"), externalTrafficPolicy="Local")
    yield changing("recreated", [[{"delete": "Service dp/{}"}, {"create": service("{}", [port(number=81)])}]], ("cluster",), numbers=(80, 81))
    taint = [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}]
    eligible = [probe("outside", "node-b", 10256, http=p, keys=["healthy", "nodeEligible"]) for p in ("/healthz", "/livez")]
    name = "c-node-taint"
    made = service(name, type="LoadBalancer", externalTrafficPolicy="Local")
    yield case("changes/" + name, [made, slice_of(name, [endpoint("b1")])], [*eligible, change(merge("Node node-b", {"spec": {"taints": taint}})), *eligible, *checks(name), change(merge("Node node-b", {"spec": {"taints": None}})), *eligible])
    name, at = "c-health", Addresses()
    of = "EndpointSlice dp/%s-1" % name
    yield case("changes/" + name, [service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy="Local"), slice_of(name, [])],
               [*checks(name), change(merge(of, {"endpoints": [endpoint("a1")]})), *checks(name), change(merge(of, {"endpoints": [endpoint("a1", conditions=TERMINATING), endpoint("b1")]})), *checks(name), change({"delete": of}), *checks(name)])


def flows():
    """Open connections and UDP flows."""
    def flowing(label, patches, proto, start=("a1",), clients=("cluster", "node", "balancer"), **spec):
        name, at = "f-%s-%s" % (label, proto), Addresses()
        made = service(name, [port(protocol=proto.upper())], at.ingress(0), **{"type": "LoadBalancer", **spec})
        targets = {"cluster": ("pod-b2", "clusterIP of " + name, 80), "node": ("outside", "node-a", "nodePort of " + name), "balancer": ("pod-a2", at.balancer[0], 80)}
        opened = change(*[{"open": c, "from": targets[c][0], "to": targets[c][1], "port": targets[c][2], "proto": proto} for c in clients])
        used = [{"flow": c, "from": targets[c][0]} for c in clients]
        fill = filler(name, at)
        steps = [opened] + used
        for patch in patches:
            steps += [{"change": fill(patch)}] + used
        ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
        return case("flows/" + name, [made, slice_of(name, [endpoint(p) for p in start], ports)], steps)

    to = lambda *found: [merge("EndpointSlice dp/{}-1", {"endpoints": list(found)})]
    spec = lambda **fields: [merge("Service dp/{}", {"spec": fields})]
    for proto in ("tcp", "udp"):
        yield flowing("replaced", [to(endpoint("b1"))], proto)
        yield flowing("joined", [to(endpoint("a1"), endpoint("b1"))], proto)
        yield flowing("terminates", [to(endpoint("a1", conditions=TERMINATING), endpoint("b1"))], proto)
        yield flowing("terminates-not-serving", [to(endpoint("a1", conditions=GONE), endpoint("b1"))], proto)
        yield flowing("unready", [to(endpoint("a1", conditions=UNREADY), endpoint("b1"))], proto)
        yield flowing("unready-serving", [to(endpoint("a1", conditions={"ready": False, "serving": True}), endpoint("b1"))], proto)
        yield flowing("last-terminates", [to(endpoint("a1", conditions=TERMINATING))], proto)
        yield flowing("becomes-remote", [spec(externalTrafficPolicy="Local"), to(endpoint("a1"), endpoint("b1"))], proto, start=("b1",))
        yield flowing("internal-local", [spec(internalTrafficPolicy="Local")], proto)
        yield flowing("ranges", [spec(loadBalancerSourceRanges=["192.0.2.0/24"])], proto, clients=("balancer",))
        yield flowing("affinity", [spec(sessionAffinity="ClientIP"), to(endpoint("a1"), endpoint("b1"))], proto)
        yield flowing("port-of-endpoint", [[merge("EndpointSlice dp/{}-1", {"ports": [{"name": "p", "port": 9376, "protocol": proto.upper()}]})]], proto)
        yield flowing("address-leaves", [[merge("Service dp/{}", {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}}, status=True)]], proto, clients=("balancer",))
        yield flowing("no-node-port", [spec(type="ClusterIP", externalTrafficPolicy=None)], proto, clients=("node",))
        yield flowing("renamed", [spec(ports=[port("q", protocol=proto.upper())])], proto, clients=("cluster",))
        yield flowing("hints", [to(endpoint("a1", zones=["za"]), endpoint("b1", zones=["zb"]))], proto, clients=("cluster", "balancer"))
