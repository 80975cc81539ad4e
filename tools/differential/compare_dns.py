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
        service("nilport", headless), slice_of("nilport-1", "nilport", [{"addresses": ["10.244.22.1"]}], [{"name": "x"}]),
        service("manual", headless), slice_of("manual-1", "manual", [{"addresses": ["10.244.23.1", "10.244.23.2"]}], labels={"endpointslice.kubernetes.io/managed-by": "me", "service.kubernetes.io/service-proxy-name": "other"}),
        service("upper", headless), slice_of("upper-1", "upper", [{"addresses": ["10.244.24.1"], "hostname": "w"}], [{"port": 5}]),
        service("pub", {**headless, "publishNotReadyAddresses": True}), slice_of("pub-1", "pub", [{"addresses": ["10.244.25.1"], "conditions": {"ready": False}}]),
        service("mixed", both), slice_of("mixed-4", "mixed", [{"addresses": ["10.244.26.1"], "hostname": "m"}], [{"name": "a", "port": 1}]), slice_of("mixed-6", "mixed", [{"addresses": ["fd00:244:26::1"], "hostname": "m"}], [{"name": "a", "port": 1, "protocol": "UDP"}], "IPv6"),
        service("hl-np", {"clusterIP": "None"}), slice_of("hl-np-1", "hl-np", [{"addresses": ["10.244.27.1"]}], []),
    ]


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


def queries():
    for name in NAMES:
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--api", "--token", "--reference", "--portolan"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    client = run_api.Client(argparse.Namespace(server=args.api, token=args.token, client_cert=None, client_key=None))
    run_dns.load(client, json.load(open(os.path.join(CONFORMANCE, "dns.json")))["objects"])
    run_dns.load(client, objects())
    time.sleep(3)
    count = differing = 0
    for label, build, tcp in queries():
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
        if answers[0] != answers[1]:
            differing += 1
            print("DIFFERS " + label)
            for line in list(run_api.differences(*answers))[:6]:
                print("      " + line)
    print("%d queries, %d differ" % (count, differing))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
