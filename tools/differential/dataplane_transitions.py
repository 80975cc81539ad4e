"""Cases for node proxies that stop, and for further changes of Services and slices, in the form of conformance/dataplane.json."""
from dataplane_cases import *

NODE = "node-a"
TCP = [{"name": "p", "port": 8080, "protocol": "TCP"}]
UDP = [{"name": "p", "port": 8080, "protocol": "UDP"}]


def cases():
    """All cases."""
    for area in (lifecycle, sticky, transitions, moves, connections):
        yield from area()


def of_slice(name="{}", suffix="1"):
    return lambda *found, **more: merge("EndpointSlice dp/%s-%s" % (name, suffix), {"endpoints": list(found), **more})


def spec(**fields):
    return merge("Service dp/{}", {"spec": fields})


def status(*entries):
    return merge("Service dp/{}", {"status": {"loadBalancer": {"ingress": list(entries)}}}, status=True)


def stepped(area, label, objects, steps, name, at):
    fill = filler(name, at)
    return case("%s/%s" % (area, name), fill(objects), [fill(step) for step in steps], label)


def down(*changes):
    """The changes happen while the proxy of node-a is down."""
    return [change({"kill-proxy": NODE}), change(*changes, {"start-proxy": NODE})] if changes else [change({"restart-proxy": NODE})]


TARGETS = {
    "cluster": ("pod-a2", "clusterIP of {}", 80), "host": ("node-a", "clusterIP of {}", 80), "node": ("outside", "node-a", "nodePort of {}"), "own-node": ("node-a", "node-a", "nodePort of {}"),
    "balancer": ("outside", "{balancer}", 80), "inside": ("pod-a2", "{balancer}", 80), "self": ("pod-a1", "clusterIP of {}", 80),
}


def opened(clients, proto, six=False):
    of = {"ip": 6} if six else {}
    return change(*[{"open": c, "from": TARGETS[c][0], "to": TARGETS[c][1], "port": TARGETS[c][2], "proto": proto, **of} for c in clients])


def used(clients, **more):
    return [{"flow": c, "from": TARGETS[c][0], **more} for c in clients]


def asked(clients, proto="tcp", tries=MANY, six=False):
    return [probe(*TARGETS[c], proto=proto, tries=tries, six=six) for c in clients]


def lifecycle():
    """Changes while a proxy is down, and restarts."""
    clients = ("cluster", "node", "balancer")
    slices = of_slice()
    patches = {
        "nothing": [], "replaced": [slices(endpoint("b1"))], "joined": [slices(endpoint("a1"), endpoint("b1"))], "emptied": [slices()], "slice-deleted": [{"delete": "EndpointSlice dp/{}-1"}], "terminating": [slices(endpoint("a1", conditions=TERMINATING))],
        "cluster-only": [spec(type="ClusterIP", externalTrafficPolicy=None)], "local": [spec(externalTrafficPolicy="Local"), slices(endpoint("b1"))], "status": [status()], "ranges": [spec(loadBalancerSourceRanges=["10.244.0.0/16"])], "target": [merge("EndpointSlice dp/{}-1", {"ports": [{"name": "p", "port": 9376, "protocol": "TCP"}]})],
    }
    for label, made in patches.items():
        for proto in ("tcp", "udp"):
            name, at = "l-%s-%s" % (label, proto), Addresses()
            ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
            changed = [{**m, "merge": {"ports": [{**m["merge"]["ports"][0], "protocol": proto.upper()}]}} if "ports" in m.get("merge", {}) else m for m in made]
            objects = [service(name, [port(protocol=proto.upper())], at.ingress(0), type="LoadBalancer"), slice_of(name, [endpoint("a1")], ports)]
            yield stepped("lifecycle", label, objects, [opened(clients, proto), *used(clients), *down(*changed), *used(clients), *asked(clients[::2] if label == "cluster-only" else clients, proto)], name, at)
    name, at = "l-hc", Addresses()
    made = service(name, status=at.ingress(0), type="LoadBalancer", externalTrafficPolicy="Local")
    yield stepped("lifecycle", "hc", [made, slice_of(name, [endpoint("a1")])], [*checks(name), *down(slices(endpoint("a1"), endpoint("a2"))), *checks(name), *down(slices(endpoint("b1"))), *checks(name)], name, at)
    name, at = "l-zone", Addresses()
    zone = lambda value: merge("Node node-a", {"metadata": {"labels": {"topology.kubernetes.io/zone": value}}})
    yield stepped("lifecycle", "zone", [service(name), slice_of(name, [endpoint("a1", zones=["za"]), endpoint("b1", zones=["zb"])])], [*asked(["cluster", "host"]), *down(zone("zb")), *asked(["cluster", "host"]), *down(zone("za")), *asked(["cluster", "host"])], name, at)


def sticky():
    """Session affinity across restarts and changes."""
    slices = of_slice()
    two = [probe("outside", "clusterIP of {}", 80, tries=32, sources="alternate"), probe("pod-a2", "clusterIP of {}", 80, tries=MANY), probe("node-a", "clusterIP of {}", 80, tries=MANY)]
    joined = slices(endpoint("b1"), endpoint("a1"), endpoint("b2"))
    steps = {
        "restart": [change(joined), *two, *down()], "joined-while-down": down(joined), "left-while-down": [change(joined), *two, *down(slices(endpoint("a1"), endpoint("b2")))],
        "port-number": [change(spec(ports=[port(number=82)]), joined)], "two-ports-swapped": [change(spec(ports=[port(number=82), port("q", 80)]), joined)],
        "slice-port": [change(merge("EndpointSlice dp/{}-1", {"ports": [{"name": "p", "port": 9376, "protocol": "TCP"}]}), joined)], "renamed-port": [change(spec(ports=[port("r")]), merge("EndpointSlice dp/{}-1", {"ports": [{"name": "r", "port": 8080, "protocol": "TCP"}]}), joined)],
        "type": [change(spec(type="NodePort"), joined)], "unready": [change(slices(endpoint("b1", conditions=UNREADY), endpoint("a1"))), change(joined)], "terminating": [change(slices(endpoint("b1", conditions=TERMINATING), endpoint("a1"))), *two, change(joined)],
        "last-terminating": [change(slices(endpoint("b1", conditions=TERMINATING)))], "recreated": [change({"delete": "Service dp/{}"}), change({"create": service("{}", sessionAffinity="ClientIP", clusterIP="10.96.0.199")}, joined)],
        "internal-local": [change(spec(internalTrafficPolicy="Local"), joined)], "hints": [change(slices(endpoint("b1", zones=["zb"]), endpoint("a1", zones=["za"])))],
    }
    for label, made in steps.items():
        name, at = "st-" + label, Addresses()
        more = {"clusterIP": "10.96.0.199"} if label == "recreated" else {}
        last = [{**p, "port": 82} for p in two] if label in ("port-number", "two-ports-swapped") else two
        # A client that chooses anew can get the same endpoint again, so only many clients are compared.
        last = last[:1] if label in ("renamed-port", "recreated", "left-while-down", "slice-port", "unready") else last
        yield stepped("sticky", label, [service(name, sessionAffinity="ClientIP", **more), slice_of(name, [endpoint("b1")], [{"name": n, "port": 8080, "protocol": "TCP"} for n in "pq"])], [*two, *made, *last], name, at)
    for external, proto in itertools.product(("Cluster", "Local"), ("tcp", "udp")):
        name, at = "st-all-%s-%s" % (external.lower(), proto), Addresses()
        ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
        made = service(name, [port(protocol=proto.upper())], at.ingress(0), type="LoadBalancer", sessionAffinity="ClientIP", externalTrafficPolicy=external)
        clients = ("node", "balancer", "cluster", "own-node")
        yield stepped("sticky", "all", [made, slice_of(name, [endpoint("a1")], ports)], [*asked(clients, proto), change(slices(endpoint("a1"), endpoint("a2"), endpoint("b1"))), *asked(clients, proto), change(spec(externalTrafficPolicy="Local" if external == "Cluster" else "Cluster")), *asked(clients, proto)], name, at)


def transitions():
    """Changes, observed by new connections."""
    slices = of_slice()
    both = ("cluster", "node", "balancer", "inside", "host", "own-node")
    patches = {
        "node-name": [[slices({**endpoint("a1"), "nodeName": "node-b"})], [slices(endpoint("a1", node=False))], [slices(endpoint("a1"))]], "many-states": [[slices(endpoint("a1", conditions=UNREADY), endpoint("b1"))], [slices(endpoint("a1", conditions=TERMINATING), endpoint("b1", conditions=UNREADY))], [slices(endpoint("a1", conditions=GONE), endpoint("b1", conditions=TERMINATING))], [slices()]],
        "external-local-and-back": [[spec(externalTrafficPolicy="Local", internalTrafficPolicy="Local"), slices(endpoint("b1"))], [slices(endpoint("a1"), endpoint("b1"))], [slices(endpoint("a1", conditions=TERMINATING), endpoint("b1"))], [spec(externalTrafficPolicy="Cluster", internalTrafficPolicy="Cluster")]],
        "node-hints": [[slices(endpoint("a1", nodes=["node-a"]), endpoint("b1", nodes=["node-b"]))], [slices(endpoint("a1", nodes=["node-b"]), endpoint("b1", nodes=["node-a"]))], [slices(endpoint("a1", nodes=["node-a"]), endpoint("b1"))]],
        "second-slice": [[{"create": slice_of("{}", [endpoint("b1")], suffix="2")}], [slices()], [{"delete": "EndpointSlice dp/{}-1"}]], "ready-in-one-slice": [[{"create": slice_of("{}", [endpoint("a1", conditions=TERMINATING), endpoint("b1")], suffix="2")}], [{"delete": "EndpointSlice dp/{}-1"}]],
        "six-slice": [[{"create": slice_of("{}", [endpoint("b1", True)], six=True, suffix="6")}], [{"delete": "EndpointSlice dp/{}-1"}]], "no-node-ports": [[spec(allocateLoadBalancerNodePorts=False, ports=[{**port(), "nodePort": 0}])], [spec(allocateLoadBalancerNodePorts=True)]],
        "proxy-name": [[merge("Service dp/{}", {"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "x"}}})], [merge("Service dp/{}", {"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": None}}})]],
        "headless-label": [[merge("Service dp/{}", {"metadata": {"labels": {"service.kubernetes.io/headless": ""}}})]], "external-name": [[spec(type="ExternalName", externalName="a.example", externalTrafficPolicy=None, internalTrafficPolicy=None, clusterIP=None, clusterIPs=None, ipFamilies=None, ipFamilyPolicy=None, allocateLoadBalancerNodePorts=None)], [spec(type="LoadBalancer", externalName=None)]],
        "target-name": [[spec(ports=[port(target="web")])], [spec(ports=[port(target=9376)])]], "proxy-mode-and-ranges": [[spec(loadBalancerSourceRanges=["172.30.0.0/24"]), status({"ip": "{balancer}", "ipMode": "Proxy"})], [status({"ip": "{balancer}", "ipMode": "VIP"})], [status({"ip": "{balancer}"}, {"ip": "{balancer}", "ipMode": "Proxy"})]],
        "duplicate-address": [[slices(endpoint("a1"), endpoint("a1", conditions=TERMINATING))], [slices(endpoint("a1", conditions=UNREADY), endpoint("a1"))]], "host-network": [[slices(endpoint("ha"))], [slices(endpoint("hb"), endpoint("ha"))], [slices(endpoint("a1"))]],
        "dual": [[spec(ipFamilyPolicy="RequireDualStack"), {"create": slice_of("{}", [endpoint("a1", True)], six=True, suffix="6")}], [spec(ipFamilyPolicy="SingleStack")]],
    }
    for label, made in patches.items():
        name, at = "x-" + label, Addresses()
        steps = list(asked(both[:2]))
        for patch in made:
            has_ports = patch is not made[0] or label not in ("external-name", "no-node-ports")
            steps += [change(*patch), *asked(both if has_ports else ("balancer", "inside"))]
        yield stepped("transitions", label, [service(name, status=at.ingress(0), type="LoadBalancer"), slice_of(name, [endpoint("a1")], TCP)], steps, name, at)
    name, at = "x-two-ports", Addresses()
    p, q = port("p", 80), port("q", 81, target=9376)
    numbers = [probe(c, "clusterIP of {}", n, tries=4) for c in ("pod-a2", "node-a") for n in (80, 81)]
    ports = [{"name": "p", "port": 8080, "protocol": "TCP"}, {"name": "q", "port": 9376, "protocol": "TCP"}]
    yield stepped("transitions", "two-ports", [service(name, [p, q], type="NodePort"), slice_of(name, [endpoint("a1")], ports)],
                  [*numbers, change(spec(ports=[port("p", 81), port("q", 80, target=9376)])), *numbers, change(spec(ports=[port("q", 81, target=9376), port("p", 80)])), *numbers, change(spec(ports=[p])), *numbers, change(spec(ports=[port("q", 80)])), *numbers], name, at)
    name, at = "x-protocols", Addresses()
    protos = [probe(c, t, n, proto=k, tries=4) for k in ("tcp", "udp") for c, t, n in (("pod-a2", "clusterIP of {}", 80), ("outside", "node-a", 30991), ("outside", "{balancer}", 80))]
    of = lambda *kinds: spec(ports=[port(k.lower(), 80, k, nodePort=30991) for k in kinds])
    all_ports = [{"name": "tcp", "port": 8080, "protocol": "TCP"}, {"name": "udp", "port": 8080, "protocol": "UDP"}]
    yield stepped("transitions", "protocols", [service(name, [port("tcp", nodePort=30991)], at.ingress(0), type="LoadBalancer"), slice_of(name, [endpoint("a1")], all_ports)],
                  [*protos, change(of("TCP", "UDP")), *protos, change(of("UDP")), *protos, change(of("TCP")), *protos], name, at)


def moves():
    """Addresses that move between Services."""
    for label in ("external", "balancer", "node-port"):
        first, second, at = "mv-%s-a" % label, "mv-%s-bb" % label, Addresses()
        extra = {"external": {"externalIPs": [at.external[0]]}, "balancer": {"type": "LoadBalancer"}, "node-port": {"type": "NodePort", "ports": [port(nodePort=30981)]}}[label]
        plain = {"balancer": {"type": "LoadBalancer"}, "node-port": {"type": "NodePort", "ports": [port(nodePort=30982)]}}.get(label, {})
        give = {"external": lambda n, on: merge("Service dp/" + n, {"spec": {"externalIPs": [at.external[0]] if on else None}}),
                "balancer": lambda n, on: merge("Service dp/" + n, {"status": {"loadBalancer": {"ingress": at.ingress(0) if on else None}}}, status=True),
                "node-port": lambda n, on: merge("Service dp/" + n, {"spec": {"ports": [port(nodePort=30981 if on else 30983 + len(n) % 2)]}})}[label]
        target = {"external": (at.external[0], 80), "balancer": (at.balancer[0], 80), "node-port": ("node-a", 30981)}[label]
        look = [probe(c, *target, tries=4) for c in ("outside", "pod-a2", "node-b")]
        objects = [service(first, status=at.ingress(0) if label == "balancer" else None, **extra), slice_of(first, [endpoint("a1")]), service(second, **plain), slice_of(second, [endpoint("b1")])]
        yield case("moves/mv-" + label, objects, [*look, change(give(first, False), give(second, True)), *look, change(give(second, False)), *look, change(give(first, True)), *look, change({"delete": "Service dp/" + first}), *look])


def connections():
    """Open connections and UDP flows: other clients, IPv6, and further changes."""
    slices = of_slice()
    clients = ("cluster", "host", "node", "own-node", "balancer", "inside")
    patches = {
        "emptied-and-back": [[slices()], [slices(endpoint("b1"))]], "deleted": [[{"delete": "Service dp/{}"}]], "slice-deleted": [[{"delete": "EndpointSlice dp/{}-1"}]], "replaced-by-host": [[slices(endpoint("hb"))]], "terminates-then-leaves": [[slices(endpoint("a1", conditions=TERMINATING), endpoint("b1"))], [slices(endpoint("b1"))]],
        "last-gone": [[slices(endpoint("a1", conditions=GONE))], [slices(endpoint("b1"))]], "local": [[spec(externalTrafficPolicy="Local")], [slices(endpoint("b1"))]], "node-name": [[slices({**endpoint("a1"), "nodeName": "node-b"})]], "other-slice": [[{"create": slice_of("{}", [endpoint("a1")], None, suffix="2")}, {"delete": "EndpointSlice dp/{}-1"}]],
        "same-pod-other-service": [[{"delete": "Service dp/{}-o"}]],
    }
    for (label, made), proto in itertools.product(patches.items(), ("tcp", "udp")):
        name, at = "cn-%s-%s" % (label, proto), Addresses()
        ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
        objects = [service(name, [port(protocol=proto.upper())], at.ingress(0), type="LoadBalancer"), slice_of(name, [endpoint("a1")], ports)]
        if label == "same-pod-other-service":
            objects += [service(name + "-o", [port(protocol=proto.upper())]), slice_of(name + "-o", [endpoint("a1")], ports)]
        steps = [opened(clients, proto), *used(clients)]
        for patch in made:
            patch = [{"create": {**c["create"], "ports": ports}} if "create" in c else c for c in patch]
            steps += [change(*patch), *used(clients)]
        yield stepped("connections", label, objects, steps, name, at)
    for label in ("replaced", "emptied", "deleted", "self"):
        name, at = "cn-six-%s" % label, Addresses()
        patch = {"replaced": slices(endpoint("b1", True)), "emptied": slices(), "deleted": {"delete": "Service dp/{}"}, "self": slices(endpoint("a1", True), endpoint("b1", True))}[label]
        who = ("self",) if label == "self" else ("cluster", "host", "node", "own-node")
        objects = [service(name, [port(protocol="UDP")], type="NodePort", families=6), slice_of(name, [endpoint("a1", True)], UDP, six=True)]
        yield stepped("connections", label, objects, [opened(who, "udp", True), *used(who), change(patch), *used(who)], name, at)
    for proto in ("tcp", "udp"):
        name, at = "cn-hairpin-" + proto, Addresses()
        ports = [{"name": "p", "port": 8080, "protocol": proto.upper()}]
        objects = [service(name, [port(protocol=proto.upper())]), slice_of(name, [endpoint("a1")], ports)]
        yield stepped("connections", "hairpin", objects, [opened(("self",), proto), *used(("self",)), change(slices(endpoint("b1"))), *used(("self",)), change(slices(endpoint("a1"))), *used(("self",))], name, at)
