#!/usr/bin/env python3
"""Send the same queries to CoreDNS and to Portolan, and print how the responses differ.

  compare_dns.py --api URL --token T --reference ADDRESS:PORT --portolan ADDRESS:PORT [--only SUBSTRING]

Both servers watch the same API server. The objects of conformance/dns.json and some more are created first. Compared are the
response code, the flags AA, TC and RA, the records with their TTLs, and the OPT record. Exit status: 0 if no response differs.
"""
import argparse, ipaddress, json, os, random, socket, struct, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
CONFORMANCE = os.path.join(HERE, "..", "..", "conformance")
sys.path[:0] = [HERE, CONFORMANCE]
import run_api
import run_dns

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "NAPTR": 35, "DS": 43, "DNSKEY": 48,
         "SVCB": 64, "HTTPS": 65, "IXFR": 251, "AXFR": 252, "ANY": 255, "CAA": 257, "T65280": 65280}
NAMES = ["cluster.local.", "svc.cluster.local.", "pod.cluster.local.", "local.", ".", "dns-version.cluster.local.", "DNS-Version.Cluster.LOCAL.", "x.dns-version.cluster.local.", "ns.dns.cluster.local.", "dns.cluster.local.", "x.ns.dns.cluster.local.",
         "my-ns.svc.cluster.local.", "no-ns.svc.cluster.local.", "my-ns.pod.cluster.local.", "my-service.my-ns.svc.cluster.local.", "MY-Service.My-NS.SVC.cluster.local.", "none.my-ns.svc.cluster.local.", "hl.my-ns.svc.cluster.local.", "hl-empty.my-ns.svc.cluster.local.", "hl-dual.my-ns.svc.cluster.local.", "dual.my-ns.svc.cluster.local.", "six.my-ns.svc.cluster.local.",
         "web-0.hl.my-ns.svc.cluster.local.", "WEB-0.hl.my-ns.svc.cluster.local.", "web-9.hl.my-ns.svc.cluster.local.", "10-244-1-13.hl.my-ns.svc.cluster.local.", "10-244-1-11.hl.my-ns.svc.cluster.local.", "_http._tcp.my-service.my-ns.svc.cluster.local.", "_HTTP._TCP.my-service.my-ns.svc.cluster.local.", "_http._udp.my-service.my-ns.svc.cluster.local.", "_none._tcp.my-service.my-ns.svc.cluster.local.", "_peer._tcp.hl.my-ns.svc.cluster.local.",
         "_peer._tcp.web-0.hl.my-ns.svc.cluster.local.", "_tcp.my-service.my-ns.svc.cluster.local.", "http._tcp.my-service.my-ns.svc.cluster.local.", "_http.tcp.my-service.my-ns.svc.cluster.local.", "*.my-ns.svc.cluster.local.", "*.*.svc.cluster.local.", "*.svc.cluster.local.", "*.*.my-service.my-ns.svc.cluster.local.", "_*._tcp.my-service.my-ns.svc.cluster.local.", "any.my-ns.svc.cluster.local.", "my-service.*.svc.cluster.local.", "my-service.any.svc.cluster.local.",
         "database.prod.svc.cluster.local.", "inner.prod.svc.cluster.local.", "hlx.prod.svc.cluster.local.", "numeric.prod.svc.cluster.local.", "x.database.prod.svc.cluster.local.", "_pg._tcp.my-service.prod.svc.cluster.local.", "chain1.prod.svc.cluster.local.", "chain2.prod.svc.cluster.local.", "loop.prod.svc.cluster.local.", "dangling.prod.svc.cluster.local.", "zone.prod.svc.cluster.local.", "six-name.prod.svc.cluster.local.", "to-pod.prod.svc.cluster.local.", "long.prod.svc.cluster.local.",
         "10-244-9-9.my-ns.pod.cluster.local.", "10-244-9-9.no-ns.pod.cluster.local.", "1-2-3.my-ns.pod.cluster.local.", "1-2-3-256.my-ns.pod.cluster.local.", "01-2-3-4.my-ns.pod.cluster.local.", "fd00-244--5.my-ns.pod.cluster.local.", "fd00--5.my-ns.pod.cluster.local.", "--1.my-ns.pod.cluster.local.", "x.10-244-9-9.my-ns.pod.cluster.local.", "p.my-ns.pod.cluster.local.", "--ffff-10-0-0-1.my-ns.pod.cluster.local.", "FD00--5.my-ns.pod.cluster.local.",
         "in-addr.arpa.", "ip6.arpa.", "arpa.", "10.in-addr.arpa.", "96.10.in-addr.arpa.", "0.96.10.in-addr.arpa.", "210.0.96.10.in-addr.arpa.", "250.0.96.10.in-addr.arpa.", "x.210.0.96.10.in-addr.arpa.", "256.0.96.10.in-addr.arpa.", "0210.0.96.10.in-addr.arpa.", "11.1.244.10.in-addr.arpa.", "14.1.244.10.in-addr.arpa.", "1.0.0.127.in-addr.arpa.", "9.9.244.10.in-addr.arpa.", "32.100.51.198.in-addr.arpa.", "x.in-addr.arpa.", "210.0.96.10.IN-ADDR.ARPA.",
         "6.d.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa.", "5.d.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa.", "d.f.ip6.arpa.", "6.d.ip6.arpa.", "6.D.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa.", "example.com.", "cluster.local.cluster.local.", "xcluster.local.", "a.b.c.d.e.f.cluster.local.", "svc.svc.cluster.local.", "my-service.my-ns.cluster.local.", "my-service.my-ns.xyz.cluster.local.", "a.b.my-service.my-ns.svc.cluster.local.", "a.b.c.my-service.my-ns.svc.cluster.local.", "hl-noport.my-ns.svc.cluster.local.", "hl-publish.my-ns.svc.cluster.local.",
         "terminating.my-ns.svc.cluster.local.", "t0.terminating.my-ns.svc.cluster.local.", "t1.terminating.my-ns.svc.cluster.local.", "same.my-ns.svc.cluster.local.", "s.same.my-ns.svc.cluster.local.", "fqdn.my-ns.svc.cluster.local.", "nilport.my-ns.svc.cluster.local.", "_x._tcp.nilport.my-ns.svc.cluster.local.", "manual.my-ns.svc.cluster.local.", "upper.my-ns.svc.cluster.local.", "w.upper.my-ns.svc.cluster.local.", "pub.my-ns.svc.cluster.local.", "mixed.my-ns.svc.cluster.local.", "_a._tcp.mixed.my-ns.svc.cluster.local.", "_a._udp.mixed.my-ns.svc.cluster.local.", "m.mixed.my-ns.svc.cluster.local.", "hl-np.my-ns.svc.cluster.local."]


def objects():
    def service(name, spec, ns="my-ns"):
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": ns}, "spec": spec}

    def external(name, target):
        return service(name, {"type": "ExternalName", "externalName": target}, "prod")

    def slice_of(name, service, endpoints, ports=({"name": "x", "port": 1},), kind="IPv4", labels=None):
        return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind, "endpoints": endpoints, "ports": list(ports),
                "metadata": {"name": name, "namespace": "my-ns", "labels": {"kubernetes.io/service-name": service, **(labels or {})}}}
    headless = {"clusterIP": "None", "ports": [{"name": "x", "port": 1}]}
    both = {**headless, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    return [
        external("chain1", "chain2.prod.svc.cluster.local"), external("chain2", "inner.prod.svc.cluster.local"), external("loop", "loop.prod.svc.cluster.local"), external("dangling", "none.my-ns.svc.cluster.local"), external("zone", "cluster.local"), external("six-name", "fd00--1.example"),
        external("to-pod", "10-244-9-9.my-ns.pod.cluster.local"), external("long", ".".join(["a" * 60] * 4)),
        service("terminating", headless), slice_of("terminating-1", "terminating", [{"addresses": ["10.244.20.1"], "hostname": "t0", "conditions": {"ready": False, "serving": True, "terminating": True}}, {"addresses": ["10.244.20.2"], "hostname": "t1", "conditions": {"ready": False, "serving": False, "terminating": True}}, {"addresses": ["10.244.20.3"], "conditions": {"serving": True}}, {"addresses": ["10.244.20.4"], "conditions": {"ready": True, "serving": False}}]),
        service("same", headless), slice_of("same-1", "same", [{"addresses": ["10.244.21.1"], "hostname": "s"}]), slice_of("same-2", "same", [{"addresses": ["10.244.21.1"], "hostname": "s"}, {"addresses": ["10.244.21.2"], "hostname": "s"}], [{"name": "y", "port": 2}]),
        service("fqdn", headless), slice_of("fqdn-1", "fqdn", [{"addresses": ["a.example"]}], kind="FQDN"),
        service("fqdn-names", headless), slice_of("fqdn-names-1", "fqdn-names", [{"addresses": ["b.example"], "hostname": "f"}, {"addresses": ["c.example"], "conditions": {"ready": False}}], kind="FQDN"),
        service("fqdn-mixed", headless), slice_of("fqdn-mixed-1", "fqdn-mixed", [{"addresses": ["d.example"]}], kind="FQDN"), slice_of("fqdn-mixed-2", "fqdn-mixed", [{"addresses": ["10.244.28.1"]}]),
        service("fqdn-cluster", {"ports": [{"name": "x", "port": 1}], "clusterIP": "10.96.77.1"}), slice_of("fqdn-cluster-1", "fqdn-cluster", [{"addresses": ["e.example"]}], kind="FQDN"),
        service("two-ports", {"clusterIP": "10.96.77.2", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP"}]}), slice_of("two-ports-1", "two-ports", [{"addresses": ["10.244.29.1"]}], [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP"}]),
        service("external-port", {"type": "ExternalName", "externalName": "a.example", "ports": [{"name": "x", "port": 7}]}, "prod"),
        service("nilport", headless), slice_of("nilport-1", "nilport", [{"addresses": ["10.244.22.1"]}], [{"name": "x"}]),
        service("manual", headless), slice_of("manual-1", "manual", [{"addresses": ["10.244.23.1", "10.244.23.2"]}], labels={"endpointslice.kubernetes.io/managed-by": "me", "service.kubernetes.io/service-proxy-name": "other"}),
        service("upper", headless), slice_of("upper-1", "upper", [{"addresses": ["10.244.24.1"], "hostname": "w"}], [{"port": 5}]),
        service("pub", {**headless, "publishNotReadyAddresses": True}), slice_of("pub-1", "pub", [{"addresses": ["10.244.25.1"], "conditions": {"ready": False}}]),
        service("mixed", both), slice_of("mixed-4", "mixed", [{"addresses": ["10.244.26.1"], "hostname": "m"}], [{"name": "a", "port": 1}]), slice_of("mixed-6", "mixed", [{"addresses": ["fd00:244:26::1"], "hostname": "m"}], [{"name": "a", "port": 1, "protocol": "UDP"}], "IPv6"),
        service("hl-np", {"clusterIP": "None"}), slice_of("hl-np-1", "hl-np", [{"addresses": ["10.244.27.1"]}], []),
    ]


def names_of(objects):
    """Names that the objects of conformance/dns.json have or could have: Services, their ports, endpoints, reverse names."""
    reverse = lambda ip: ipaddress.ip_address(ip).reverse_pointer + "."
    dashed = lambda ip: ip.replace(".", "-").replace(":", "-")
    of_service = {}
    for o in objects:
        namespace, name = o["metadata"].get("namespace"), o["metadata"]["name"]
        if o["kind"] == "Service":
            base = of_service[namespace, name] = "%s.%s.svc.cluster.local." % (name, namespace)
            yield from (base, base.upper(), base.title(), "x." + base, "*." + base, "x.y." + base, "_tcp." + base, base.replace(".svc.", ".pod."), base.replace(".svc.", "."))
            for port in o["spec"].get("ports", []) + [{"name": "none"}]:
                for proto in ("tcp", "udp", "sctp"):
                    labels = ["_" + port.get("name", ""), port.get("name", "x"), "_%d" % port.get("port", 0), "_" + port.get("name", "x").upper(), "*", "_*"]
                    yield from ("%s._%s.%s" % (label, proto, base) for label in labels)
                yield "_%s.tcp.%s" % (port.get("name", "x"), base)
            status = [i["ip"] for i in o.get("status", {}).get("loadBalancer", {}).get("ingress", []) if "ip" in i]
            spec = o["spec"]
            yield from (reverse(ip) for ip in [spec.get("clusterIP")] + spec.get("clusterIPs", []) + spec.get("externalIPs", []) + status if ip and ip != "None")
    for o in objects:
        if o["kind"] == "Namespace":
            name = o["metadata"]["name"]
            yield from ("%s.svc.cluster.local." % name, "%s.pod.cluster.local." % name, "%s.cluster.local." % name, "*.%s.svc.cluster.local." % name, "%s.pod.cluster.local." % name.upper())
        if o["kind"] == "EndpointSlice":
            base = of_service.get((o["metadata"]["namespace"], o["metadata"].get("labels", {}).get("kubernetes.io/service-name")))
            ports = [p.get("name", "") for p in o["ports"]]
            for endpoint in o["endpoints"][:6]:
                for address in endpoint["addresses"]:
                    yield reverse(address)
                    if base:
                        hosts = [h + "." + base for h in (endpoint.get("hostname"), dashed(address)) if h]
                        yield from hosts
                        yield from ("_%s._tcp.%s" % (port, host) for port in ports for host in hosts)
                        yield from ("x." + host for host in hosts)
                    yield "%s.%s.pod.cluster.local." % (dashed(address), o["metadata"]["namespace"])


def query(name, kind, ident, edns=None, opcode=0, recursion=True, questions=1, cls=1):
    """Builds a query. `edns` is a size, or a tuple of size, version, flags and options."""
    flags = (opcode << 11) | (0x100 if recursion else 0)
    wire = struct.pack(">HHHHHH", ident, flags, questions, 0, 0, 1 if edns else 0)
    question = b"".join(bytes([len(l)]) + l.encode() for l in name.rstrip(".").split(".") if l) + b"\0" + struct.pack(">HH", kind, cls)
    wire += question * questions
    if edns:
        size, version, bits, options = edns if isinstance(edns, tuple) else (edns, 0, 0, b"")
        wire += b"\0" + struct.pack(">HHBBHH", 41, size, 0, version, bits, len(options)) + options
    return wire


def malformed():
    """Labels and messages that a resolver library does not send."""
    service = "my-service.my-ns.svc.cluster.local."
    plain = lambda i, **more: query(service, 1, i, **more)
    opt = lambda size=1232, version=0, bits=0, options=b"", name=b"\0", extended=0: name + struct.pack(">HHBBHH", 41, size, extended, version, bits, len(options)) + options
    option = lambda code, data: struct.pack(">HH", code, len(data)) + data

    def counted(wire, answers=0, authorities=0, additional=0):
        return wire[:6] + struct.pack(">HHH", answers, authorities, additional) + wire[12:]

    def with_flags(wire, bits):
        return wire[:2] + struct.pack(">H", struct.unpack(">H", wire[2:4])[0] | bits) + wire[4:]
    record = b"\1x\0" + struct.pack(">HHIH", 1, 1, 5, 4) + b"\1\2\3\4"
    yield "two OPT", lambda i: counted(plain(i), additional=2) + opt() * 2
    yield "OPT with a name", lambda i: counted(plain(i), additional=1) + opt(name=b"\1x\0")
    yield "OPT in the answer section", lambda i: counted(plain(i), answers=1) + opt()
    yield "OPT in the authority section", lambda i: counted(plain(i), authorities=1) + opt()
    yield "OPT with an extended code", lambda i: counted(plain(i), additional=1) + opt(extended=5)
    yield "OPT of size 0", lambda i: counted(plain(i), additional=1) + opt(0)
    yield "OPT after a record", lambda i: counted(plain(i), additional=2) + record + opt()
    yield "OPT before a record", lambda i: counted(plain(i), additional=2) + opt() + record
    for length in (0, 7, 8, 9, 15, 16, 24, 40, 41):
        yield "cookie of %d bytes" % length, lambda i, n=length: counted(plain(i), additional=1) + opt(options=option(10, b"c" * n))
    yield "two cookies", lambda i: counted(plain(i), additional=1) + opt(options=option(10, b"c" * 8) * 2)
    for family, source, scope, data in ((1, 33, 0, b"\1\2\3\4\5"), (1, 24, 0, b"\1\2\3\4"), (1, 24, 0, b"\1\2"), (3, 24, 0, b"\1\2\3"), (0, 0, 0, b""), (2, 56, 0, b"\x20\1" + b"\0" * 5), (1, 24, 24, b"\1\2\3")):
        yield "subnet %d/%d/%d of %d bytes" % (family, source, scope, len(data)), lambda i, f=family, s=source, c=scope, d=data: counted(plain(i), additional=1) + opt(options=option(8, struct.pack(">HBB", f, s, c) + d))
    for code, data in ((3, b"id"), (5, b"\1"), (9, b"\0"), (9, b"\0\0\0\1"), (11, b"\0\1"), (11, b"\0"), (12, b""), (13, b"x"), (15, b"\0\1text"), (15, b"\0"), (16, b""), (0, b""), (65535, b"x")):
        yield "option %d %r" % (code, data), lambda i, c=code, d=data: counted(plain(i), additional=1) + opt(options=option(c, d))
    yield "version 1 and a bad option", lambda i: counted(plain(i), additional=1) + opt(version=1, options=b"\0\3\0\9")
    yield "data after the question", lambda i: plain(i) + b"rest"
    yield "data after the OPT", lambda i: counted(plain(i), additional=1) + opt() + b"rest"
    yield "counted OPT missing", lambda i: counted(plain(i), additional=1)
    yield "counted answer missing", lambda i: counted(plain(i), answers=1)
    yield "an answer", lambda i: counted(plain(i), answers=1) + record
    yield "an authority", lambda i: counted(plain(i), authorities=1) + record
    yield "an additional record", lambda i: counted(plain(i), additional=1) + record
    for label, bits in (("response", 0x8000), ("AA", 0x400), ("TC", 0x200), ("RA", 0x80), ("Z", 0x40), ("AD", 0x20), ("CD", 0x10), ("rcode", 3)):
        yield "flag " + label, lambda i, b=bits: with_flags(plain(i), b)
    yield "header only", lambda i: plain(i)[:12]
    yield "11 bytes", lambda i: plain(i)[:11]
    yield "half a question", lambda i: plain(i)[:20]
    yield "no class", lambda i: plain(i)[:-2]
    yield "pointer to itself", lambda i: plain(i)[:12] + b"\xc0\x0c\0\1\0\1"
    yield "pointer to the end", lambda i: plain(i)[:12] + b"\xc0\xff\0\1\0\1"
    yield "pointer to the header", lambda i: plain(i)[:12] + b"\xc0\x02\0\1\0\1"
    yield "label of 64", lambda i: plain(i)[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1"
    yield "reserved label", lambda i: plain(i)[:12] + b"\x80\0\0\1\0\1"
    yield "label with a dot", lambda i: plain(i)[:12] + b"\x3a.b\5my-ns\3svc\7cluster\5local\0\0\1\0\1"
    for label, raw in (("dot", b"a.b"), ("zero", b"a\0b"), ("space", b"a b"), ("quote", b'a"b'), ("backslash", b"a\\b"), ("high", b"a\xffb"), ("at", b"a@b"), ("semicolon", b"a;b")):
        name = bytes([len(raw)]) + raw
        yield "byte " + label, lambda i, n=name: plain(i)[:12] + n + b"\5my-ns\3svc\7cluster\5local\0\0\1\0\1"
    for kind in (0, 41, 249, 250, 251, 252, 253, 254, 255, 256, 65535):
        yield "type %d" % kind, lambda i, k=kind: query(service, k, i)
    for kind in (251, 252):
        yield "type %d of the zone" % kind, lambda i, k=kind: query("cluster.local.", k, i)
    for cls in (0, 3, 4, 254, 255):
        for name, kind in (("version.bind.", 16), ("hostname.bind.", 16), ("id.server.", 16), ("version.server.", 16), ("authors.bind.", 16), (service, 255), ("cluster.local.", 6)):
            yield "class %d %s %d" % (cls, name, kind), lambda i, c=cls, n=name, k=kind: query(n, k, i, cls=c)


def parse(m):
    _, flags, qd, an, ns, ar = struct.unpack(">HHHHHH", m[:12])
    out = {"rcode": flags & 15, "aa": bool(flags & 0x400), "tc": bool(flags & 0x200), "ra": bool(flags & 0x80), "rd": bool(flags & 0x100), "opcode": (flags >> 11) & 15, "questions": qd}
    i = 12
    for _ in range(qd):
        _, i = run_dns.read_name(m, i)
        i += 4
    if out["tc"]:
        return out
    for section, count in (("answer", an), ("authority", ns), ("additional", ar)):
        rows = []
        for _ in range(count):
            start = i
            name, j = run_dns.read_name(m, i)
            t, c, ttl, n = struct.unpack(">HHIH", m[j:j + 10])
            row, i = run_dns.read_record(m, start)
            if t == 41:
                out["opt"] = {"version": ttl >> 16 & 255, "extended": ttl >> 24, "do": bool(ttl & 0x8000), "options": n}
            elif row:
                rows.append(row + [ttl])
        out[section] = sorted(rows, key=str)
    return out


def ask(address, wire, tcp=False):
    host, port = address.rsplit(":", 1)
    if tcp:
        with socket.create_connection((host, int(port)), 3) as s:
            s.sendall(struct.pack(">H", len(wire)) + wire)
            data = b""
            while len(data) < 2 or len(data) < 2 + struct.unpack(">H", data[:2])[0]:
                part = s.recv(65536)
                if not part:
                    return {"closed": True}
                data += part
            return parse(data[2:])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.sendto(wire, (host, int(port)))
        try:
            return parse(s.recvfrom(65536)[0])
        except socket.timeout:
            return {"silent": True}


def queries(recorded):
    known = set(NAMES)
    names = [q["name"] for q in recorded["queries"]] + list(names_of(recorded["objects"]))
    for name in NAMES + sorted(set(names) - known):
        for kind, number in TYPES.items():
            yield "%s %s" % (name, kind), lambda i, n=name, k=number: query(n, k, i), False
    edns = {"512": 512, "100": 100, "4096": 4096, "65535": 65535, "version1": (1232, 1, 0, b""), "version255": (1232, 255, 0, b""), "do": (1232, 0, 0x8000, b""), "cookie": (1232, 0, 0, struct.pack(">HH", 10, 8) + b"12345678"), "cookie-bad": (1232, 0, 0, struct.pack(">HH", 10, 3) + b"123"), "subnet": (1232, 0, 0, struct.pack(">HHHBB", 8, 7, 1, 24, 0) + b"\1\2\3"),
            "unknown": (1232, 0, 0, struct.pack(">HH", 65001, 2) + b"xx"), "nsid": (1232, 0, 0, struct.pack(">HH", 3, 0)), "padding": (1232, 0, 0, struct.pack(">HH", 12, 4) + b"\0" * 4), "keepalive": (1232, 0, 0, struct.pack(">HH", 11, 0)), "flags": (1232, 0, 0x4000, b""), "truncated-option": (1232, 0, 0, struct.pack(">HH", 65001, 9) + b"xx")}
    for label, value in edns.items():
        for name, kind in (("my-service.my-ns.svc.cluster.local.", 1), ("none.my-ns.svc.cluster.local.", 1), ("hl-big.my-ns.svc.cluster.local.", 1), ("example.com.", 1), ("cluster.local.", 255)):
            for tcp in (False, True):
                yield "edns-%s %s %d%s" % (label, name, kind, " tcp" if tcp else ""), lambda i, n=name, k=kind, e=value: query(n, k, i, e), tcp
    for opcode in range(7):
        yield "opcode %d" % opcode, lambda i, o=opcode: query("my-service.my-ns.svc.cluster.local.", 1, i, opcode=o), False
    for cls in (1, 2, 3, 4, 254, 255):
        for name in ("my-service.my-ns.svc.cluster.local.", "version.bind.", "cluster.local."):
            yield "class %d %s" % (cls, name), lambda i, c=cls, n=name: query(n, 16 if n == "version.bind." else 1, i, cls=c), False
    for count in (0, 2):
        yield "questions %d" % count, lambda i, c=count: query("my-service.my-ns.svc.cluster.local.", 1, i, questions=c), False
    yield "no recursion", lambda i: query("my-service.my-ns.svc.cluster.local.", 1, i, recursion=False), False
    for name in ("hl-big.my-ns.svc.cluster.local.", "hl.my-ns.svc.cluster.local.", "my-service.my-ns.svc.cluster.local.", "none.my-ns.svc.cluster.local.", "chain1.prod.svc.cluster.local.", "cluster.local."):
        for kind in (1, 28, 33, 5, 6, 2, 16, 255, 252):
            yield "tcp %s %d" % (name, kind), lambda i, n=name, k=kind: query(n, k, i), True


    for label, build in malformed():
        for tcp in (False, True):
            yield "malformed: %s%s" % (label, " tcp" if tcp else ""), build, tcp
    deep = "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p"
    for name in (deep + ".cluster.local.", deep + ".svc.cluster.local.", deep + ".my-service.my-ns.svc.cluster.local.", deep + ".in-addr.arpa.", "1.2.3.4.5.in-addr.arpa.", ".".join("a" * 60) + ".cluster.local.", "%s.my-ns.svc.cluster.local." % ("a" * 63), "_.my-service.my-ns.svc.cluster.local.", "_._.my-service.my-ns.svc.cluster.local.", "_http._tcp.x.my-service.my-ns.svc.cluster.local.", "_http._tcp.web-0.hl.my-ns.svc.cluster.local.", "_peer._tcp.web-0.hl.my-ns.svc.cluster.local.", "_peer._tcp.p.hl.my-ns.svc.cluster.local.", "p.hl.my-ns.svc.cluster.local.",
                 "_peer._tcp.10-244-1-13.hl.my-ns.svc.cluster.local.", "_x._tcp.fqdn.my-ns.svc.cluster.local.", "a.fqdn.my-ns.svc.cluster.local.", "_x._tcp.fqdn-names.my-ns.svc.cluster.local.", "fqdn-names.my-ns.svc.cluster.local.", "f.fqdn-names.my-ns.svc.cluster.local.", "fqdn-mixed.my-ns.svc.cluster.local.", "fqdn-cluster.my-ns.svc.cluster.local.", "_x._tcp.fqdn-cluster.my-ns.svc.cluster.local.", "x.cluster.local.", "my-ns.cluster.local.", "pod.cluster.local.", "svc.cluster.local.", "ns.dns.cluster.local.", "dns-version.cluster.local.", "hl-long.my-ns.svc.cluster.local.", "two-ports.my-ns.svc.cluster.local.", "_a._tcp.two-ports.my-ns.svc.cluster.local.", "external-port.prod.svc.cluster.local.", "_x._tcp.external-port.prod.svc.cluster.local."):
        for kind in (1, 2, 5, 6, 12, 15, 16, 28, 33, 35, 64, 65, 255, 257):
            yield "deep %s %d" % (name, kind), lambda i, n=name, k=kind: query(n, k, i), False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--api", "--token", "--reference", "--portolan"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    client = run_api.Client(argparse.Namespace(server=args.api, token=args.token, client_cert=None, client_key=None))
    recorded = json.load(open(os.path.join(CONFORMANCE, "dns.json")))
    run_dns.load(client, json.loads(json.dumps(recorded["objects"])))
    run_dns.load(client, objects())
    time.sleep(3)
    count = differing = 0
    for label, build, tcp in queries(recorded):
        if args.only and args.only not in label:
            continue
        count += 1
        ident = random.randrange(65536)
        answers = []
        for server in (args.reference, args.portolan):
            try:
                answers.append(ask(server, build(ident), tcp))
            except OSError as error:
                answers.append({"error": type(error).__name__})
        # As conformance/run_dns.py: any of these codes is right for a name that the server does not know.
        is_unknown = answers[0].get("rcode") == 2 and answers[1].get("rcode") in (3, 5)
        if answers[0] != answers[1] and not is_unknown:
            differing += 1
            print("DIFFERS " + label)
            for line in list(run_api.differences(*answers))[:6]:
                print("      " + line)
    print("%d queries, %d differ" % (count, differing))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
