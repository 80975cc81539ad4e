"""Services: fields and their combinations, changes of type, addresses and ports."""
import itertools

from .form import *

PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]
TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")


def spec(**more):
    return {"ports": [{"port": 80}], **more}


FORMS = {
    "cluster-ip": {"ports": PORTS},
    "chosen": {"ports": PORTS, "clusterIP": "10.96.30.1"},
    "headless": {"ports": PORTS, "clusterIP": "None", "selector": {"a": "b"}},
    "headless-no-selector": {"ports": PORTS, "clusterIP": "None"},
    "dual": {"ports": PORTS, "ipFamilyPolicy": "RequireDualStack"},
    "six": {"ports": PORTS, "ipFamilies": ["IPv6"]},
    "node-port": {"ports": PORTS, "type": "NodePort"},
    "node-port-local": {"ports": PORTS, "type": "NodePort", "externalTrafficPolicy": "Local"},
    "node-port-chosen": {"ports": [{"name": "a", "port": 80, "nodePort": 31234}, {"name": "b", "port": 81, "protocol": "UDP", "nodePort": 31234}], "type": "NodePort"},
    "lb": {"ports": PORTS, "type": "LoadBalancer"},
    "lb-local": {"ports": PORTS, "type": "LoadBalancer", "externalTrafficPolicy": "Local"},
    "lb-no-node-ports": {"ports": PORTS, "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
    "lb-class": {"ports": PORTS, "type": "LoadBalancer", "loadBalancerClass": "x.example/y", "loadBalancerSourceRanges": ["192.0.2.0/24"], "loadBalancerIP": "192.0.2.9"},
    "external-name": {"type": "ExternalName", "externalName": "a.example"},
    "external-name-ports": {"type": "ExternalName", "externalName": "a.example", "ports": PORTS},
    "affinity": {"ports": PORTS, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}},
    "external-ips": {"ports": PORTS, "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local"},
    "internal-local": {"ports": PORTS, "internalTrafficPolicy": "Local"},
    "distribution": {"ports": PORTS, "trafficDistribution": "PreferSameNode", "publishNotReadyAddresses": True},
}


def cases():
    for a, b in itertools.product(FORMS, FORMS):
        if a != b:
            # A manifest in the place of an object, as `kubectl replace` sends it, and a merge patch with the whole spec.
            yield case("services/replace-%s-%s" % (a, b), post(SERVICES, service(FORMS[a])), step("PUT", SERVICES + "/s", base=0, merge={"spec": FORMS[b]}))
            yield case("services/manifest-%s-%s" % (a, b), post(SERVICES, service(FORMS[a])), put(SERVICES + "/s", service(FORMS[b])))
    for a in FORMS:
        for label, change in {"type-" + t: {"type": t} for t in TYPES}.items():
            yield case("services/%s-%s" % (label, a), post(SERVICES, service(FORMS[a])), patch(SERVICES + "/s", {"spec": change}), patch(SERVICES + "/s", {"spec": {"type": FORMS[a].get("type", "ClusterIP")}}))
        for label, change in {"ip-none": {"clusterIP": "None"}, "ip-empty": {"clusterIP": ""}, "ip-null": {"clusterIP": None, "clusterIPs": None}, "ips-other": {"clusterIPs": ["10.96.30.9"]}, "ip-and-ips": {"clusterIP": "10.96.30.9", "clusterIPs": ["10.96.30.9"]}, "single": {"ipFamilyPolicy": "SingleStack"}, "single-cut": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "clusterIPs": None, "clusterIP": None}, "prefer": {"ipFamilyPolicy": "PreferDualStack"}, "require": {"ipFamilyPolicy": "RequireDualStack"},
                              "families-six": {"ipFamilies": ["IPv6"]}, "families-dual": {"ipFamilies": ["IPv4", "IPv6"]}, "families-dual-prefer": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}, "families-null": {"ipFamilies": None}, "policy-null": {"ipFamilyPolicy": None}, "both-null": {"ipFamilyPolicy": None, "ipFamilies": None}, "policy-empty": {"ipFamilyPolicy": ""}, "add-six": {"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["10.96.30.1", "fd00:10:96::30:1"]},
                              "name": {"type": "ExternalName", "externalName": "b.example", "clusterIP": "", "clusterIPs": None}, "etp-local": {"externalTrafficPolicy": "Local"}, "etp-cluster": {"externalTrafficPolicy": "Cluster"}, "etp-empty": {"externalTrafficPolicy": ""}, "health": {"healthCheckNodePort": 31777}, "health-zero": {"healthCheckNodePort": 0}, "class": {"loadBalancerClass": "z.example/z"}, "class-empty": {"loadBalancerClass": ""}, "allocate": {"allocateLoadBalancerNodePorts": True}, "allocate-off": {"allocateLoadBalancerNodePorts": False},
                              "ports-other": {"ports": [{"name": "z", "port": 99}]}, "ports-swap": {"ports": list(reversed(PORTS))}, "node-port": {"ports": [{"name": "a", "port": 80, "nodePort": 31888}]}, "affinity-off": {"sessionAffinity": "None"}, "affinity-on": {"sessionAffinity": "ClientIP"}, "itp": {"internalTrafficPolicy": "Local"}, "itp-empty": {"internalTrafficPolicy": ""}, "distribution": {"trafficDistribution": "PreferSameZone"}, "ranges": {"loadBalancerSourceRanges": ["x"]}, "ranges-good": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, "external-ips": {"externalIPs": ["127.0.0.1"]}, "lb-ip": {"loadBalancerIP": "x"}, "selector-null": {"selector": None}, "selector": {"selector": {"z": "y"}}}.items():
            yield case("services/change-%s-%s" % (a, label), post(SERVICES, service(FORMS[a])), patch(SERVICES + "/s", {"spec": change}))
    yield from creations()
    yield from families()
    yield from sequences()


def creations():
    for t in TYPES:
        base = {"type": t, "ports": [{"port": 80}], **({"externalName": "a.example"} if t == "ExternalName" else {})}
        for label, more in {"etp-local": {"externalTrafficPolicy": "Local"}, "etp-cluster": {"externalTrafficPolicy": "Cluster"}, "etp-empty": {"externalTrafficPolicy": ""}, "itp-local": {"internalTrafficPolicy": "Local"}, "itp-empty": {"internalTrafficPolicy": ""}, "class": {"loadBalancerClass": "a.example/b"}, "class-bad": {"loadBalancerClass": "a b"}, "class-empty": {"loadBalancerClass": ""}, "class-plain": {"loadBalancerClass": "abc"}, "class-upper": {"loadBalancerClass": "Abc"}, "allocate": {"allocateLoadBalancerNodePorts": True}, "allocate-off": {"allocateLoadBalancerNodePorts": False}, "health": {"healthCheckNodePort": 31555}, "health-local": {"healthCheckNodePort": 31556, "externalTrafficPolicy": "Local"}, "health-negative": {"healthCheckNodePort": -1, "externalTrafficPolicy": "Local"}, "health-big": {"healthCheckNodePort": 70000, "externalTrafficPolicy": "Local"},
                            "ranges": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, "ranges-bits": {"loadBalancerSourceRanges": ["192.0.2.5/24"]}, "ranges-space": {"loadBalancerSourceRanges": [" 192.0.2.0/24 "]}, "ranges-bad": {"loadBalancerSourceRanges": ["x", "192.0.2.0"]}, "ranges-empty": {"loadBalancerSourceRanges": []}, "ranges-six": {"loadBalancerSourceRanges": ["2001:DB8::/32", "2001:db8:0::/33"]}, "lb-ip": {"loadBalancerIP": "192.0.2.4"}, "lb-ip-bad": {"loadBalancerIP": "x"}, "lb-ip-six": {"loadBalancerIP": "2001:DB8::1"}, "external-ips": {"externalIPs": ["192.0.2.1", "2001:db8::1"]}, "external-ips-twice": {"externalIPs": ["192.0.2.1", "192.0.2.1"]}, "headless": {"clusterIP": "None"}, "headless-ips": {"clusterIP": "None", "clusterIPs": ["None"]}, "headless-two": {"clusterIP": "None", "clusterIPs": ["None", "10.96.3.3"]}, "ip-and-none": {"clusterIP": "10.96.3.3", "clusterIPs": ["None"]},
                            "affinity": {"sessionAffinity": "ClientIP"}, "affinity-zero": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}, "affinity-null": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": None}}, "affinity-bad": {"sessionAffinity": "x"}, "affinity-config": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, "distribution": {"trafficDistribution": "PreferClose"}, "distribution-zone": {"trafficDistribution": "PreferSameZone"}, "publish": {"publishNotReadyAddresses": True}, "policy": {"ipFamilyPolicy": "SingleStack"}, "families": {"ipFamilies": ["IPv4"]}, "families-bad": {"ipFamilies": ["IPv5"]}, "families-four": {"ipFamilies": ["IPv4", "IPv6", "IPv4", "IPv6"]}, "families-bad-prefer": {"ipFamilies": ["IPv5", "IPv4"], "ipFamilyPolicy": "PreferDualStack"}, "ips-three": {"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "fd00:10:96::3", "10.96.3.4"]}, "ips-same": {"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "10.96.3.3"], "ipFamilyPolicy": "RequireDualStack"}, "ips-two-four": {"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "10.96.3.4"], "ipFamilyPolicy": "RequireDualStack"}, "ips-differ": {"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.4"]}, "ips-empty-first": {"clusterIP": "", "clusterIPs": ["", "fd00:10:96::3"]}, "ips-bad": {"clusterIP": "x", "clusterIPs": ["x"]},
                            "name": {"externalName": "b.example"}, "name-bad": {"externalName": "A_"}, "name-long": {"externalName": "a." * 126 + "a"}, "selector-bad": {"selector": {"a b": "c d", "-": "e"}}, "node-port": {"ports": [{"port": 80, "nodePort": 31444}]}, "node-ports-same": {"ports": [{"name": "a", "port": 80, "nodePort": 31445}, {"name": "b", "port": 81, "nodePort": 31445}]}, "node-ports-protocols": {"ports": [{"name": "a", "port": 80, "nodePort": 31446}, {"name": "b", "port": 80, "nodePort": 31446, "protocol": "UDP"}]}, "node-port-negative": {"ports": [{"port": 80, "nodePort": -1}]}, "node-port-low": {"ports": [{"port": 80, "nodePort": 80}]}, "node-port-big": {"ports": [{"port": 80, "nodePort": 65536}]}, "sctp": {"ports": [{"port": 80, "protocol": "SCTP"}]}, "mixed": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]}, "port-bad": {"ports": [{"port": 0, "protocol": "x", "name": "A_", "targetPort": "B_", "appProtocol": "c d", "nodePort": -1}]}, "ports-250": {"ports": [{"name": "p%d" % i, "port": i + 1} for i in range(250)]}, "ports-none": {"ports": []}, "kubelet": {"ports": [{"port": 10250}]}, "many-bad": {"type": t, "sessionAffinity": "x", "externalIPs": ["x", "127.0.0.1"], "ports": [{"port": 0}, {"port": 70000}], "internalTrafficPolicy": "x", "externalTrafficPolicy": "y", "trafficDistribution": "z", "ipFamilyPolicy": "w"}}.items():
            yield case("services/create-%s-%s" % (t, label), post(SERVICES, service({**base, **more})))
    values = {"targetPort": (0, 1, 65535, 65536, -1, "", "http", "HTTP", "http_web", "a-port-name-too-long", "123", "1a", "-a", "a-", "a--b", "a.b", "0", "80", "a" * 15, "a" * 16, 80.5, True, None, [], {}, "a b", "é"),
              "name": ("http", "123-abc", "web", "123_abc", "-web", "web-", "Web", "a" * 63, "a" * 64, "a.b", "", "80", "a b", "é", 5, None), "port": (0, 1, -1, 65535, 65536, 2147483648, 80.0, 80.5, "80", None, True), "protocol": ("TCP", "UDP", "SCTP", "tcp", "", "ICMP", "DCCP", None, 6), "appProtocol": ("http", "kubernetes.io/h2c", "kubernetes.io/wss", "kubernetes.io/none", "HTTPS", "a b", "a/b/c", "/x", "x/", "", "with_underscore", "a" * 63, "a" * 64, "a.b", "-a", "x.example/" + "a" * 64, "X.example/a", "é", None),
              "nodePort": (0, 1, 80, 29999, 30000, 32767, 32768, 65536, -1, "30100", None)}
    for field, options in values.items():
        for value in options:
            yield case("services/port-%s-%s" % (field, str(value)[:20]), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, field: value}]})))
            yield case("services/port-second-%s-%s" % (field, str(value)[:20]), post(SERVICES, service({"ports": [{"name": "x", "port": 90}, {"name": "y", "port": 80, field: value}]})))
    for value in ("", "a.example", "a.example.", "a.example..", "A.example", "10.0.0.1", "2001:db8::1", "a_b.example", "*.example", "-a.example", "a-.example", "a" * 64 + ".example", "localhost", "a", ".", "http://a.example", "a.example/x", "a b", "é.example", "_tcp.a.example", "1.2.3", "a..b", "xn--a.example", "a." * 127, "x" * 253, "x" * 254):
        yield case("services/external-name-" + value[:30], post(SERVICES, service({"type": "ExternalName", "externalName": value})))
    for ip in ("10.96.0.5", "10.96.00.5", "10.96.0", "10.96.0.256", "::ffff:10.96.0.7", "10.96.0.5/32", " 10.96.0.5", "none", "NONE", "10.96.0.0", "10.96.255.255", "10.96.0.1", "10.97.0.1", "8.8.8.8", "fd00:10:96::", "fd00:10:96::ffff", "FD00:10:96::9", "fd00:10:96:0::8", "fd00:10:97::1", "fe80::1", "127.0.0.1", "0.0.0.0", "::", "x", "fd00:10:96::5%eth0", "10.96.0.05", "0x0a600005", "180355077"):
        yield case("services/cluster-ip-" + ip, post(SERVICES, service(spec(clusterIP=ip))))
        yield case("services/external-ip-" + ip, post(SERVICES, service(spec(externalIPs=[ip]))))
        yield case("services/external-ip-second-" + ip, post(SERVICES, service(spec(externalIPs=["192.0.2.1", ip]))))
        yield case("services/lb-ip-" + ip, post(SERVICES, service(spec(type="LoadBalancer", loadBalancerIP=ip))))
        yield case("services/source-range-" + ip, post(SERVICES, service(spec(type="LoadBalancer", loadBalancerSourceRanges=[ip, ip + "/24"]))))
        yield case("services/source-annotation-" + ip, post(SERVICES, service(spec(type="LoadBalancer"), annotations={"service.beta.kubernetes.io/load-balancer-source-ranges": ip + "/24, " + ip})))
    for key, value in (("service.kubernetes.io/topology-mode", "Auto"), ("service.kubernetes.io/topology-mode", "x"), ("service.kubernetes.io/topology-aware-hints", "auto"), ("service.alpha.kubernetes.io/tolerate-unready-endpoints", "true"), ("service.beta.kubernetes.io/load-balancer-source-ranges", ""), ("service.beta.kubernetes.io/load-balancer-source-ranges", "192.0.2.0/24,"), ("service.kubernetes.io/headless", "x"), ("service.alpha.kubernetes.io/app-protocols", "x")):
        for t in TYPES:
            yield case("services/annotation-%s-%s-%s" % (key, value, t), post(SERVICES, service({"type": t, "ports": [{"port": 80}], "externalName": "a.example", "trafficDistribution": "PreferClose"}, annotations={key: value}, labels={"service.kubernetes.io/service-proxy-name": "x", "service.kubernetes.io/headless": "y"})))


def families():
    addresses = {"none": {}, "four": {"clusterIP": "10.96.31.1"}, "six": {"clusterIP": "fd00:10:96::31:1"}, "headless": {"clusterIP": "None"}, "four-six": {"clusterIP": "10.96.31.2", "clusterIPs": ["10.96.31.2", "fd00:10:96::31:2"]}, "six-four": {"clusterIP": "fd00:10:96::31:3", "clusterIPs": ["fd00:10:96::31:3", "10.96.31.3"]}, "empty-six": {"clusterIPs": ["", "fd00:10:96::31:4"]}}
    for (label, ips), policy, family, selector in itertools.product(addresses.items(), (None, "SingleStack", "PreferDualStack", "RequireDualStack"), ((), ("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4"), ("IPv4", "IPv4")), (None, {"a": "b"})):
        if selector and label != "headless":
            continue
        body = spec(**ips)
        if policy:
            body["ipFamilyPolicy"] = policy
        if family:
            body["ipFamilies"] = list(family)
        if selector:
            body["selector"] = selector
        yield case("services/families-%s-%s-%s%s" % (label, policy, "-".join(family), "-selector" if selector else ""), post(SERVICES, service(body)))


def sequences():
    s, t = SERVICES + "/s", SERVICES + "/t"
    yield case("services/ip-taken-by-update", post(SERVICES, service(spec(clusterIP="10.96.32.1"))), post(SERVICES, service({"type": "ExternalName", "externalName": "a.example"}, name="t")), patch(t, {"spec": {"type": "ClusterIP", "clusterIP": "10.96.32.1", "ports": [{"port": 80}]}}), patch(s, {"spec": {"type": "ExternalName", "externalName": "b.example", "clusterIP": None, "clusterIPs": None}}), patch(t, {"spec": {"type": "ClusterIP", "clusterIP": "10.96.32.1", "ports": [{"port": 80}]}}), get(ADDRESSES + "/10.96.32.1"))
    yield case("services/node-port-taken", post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31301}]})), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31301}]}, name="t")), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31301, "protocol": "UDP"}]}, name="u")), post(SERVICES, service({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31301, "ports": [{"port": 80}]}, name="v")), patch(s, {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 0}]}}), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31301}]}, name="t")))
    yield case("services/node-port-move", post(SERVICES, service({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 31302}, {"name": "b", "port": 81, "nodePort": 31303}]})), patch(s, {"spec": {"ports": [{"name": "b", "port": 81, "nodePort": 31302}, {"name": "a", "port": 80, "nodePort": 31303}]}}), patch(s, {"spec": {"ports": [{"name": "c", "port": 82, "nodePort": 31302}]}}), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31303}]}, name="t")), patch(s, {"spec": {"ports": [{"name": "c", "port": 82, "nodePort": 31303}]}}), patch(s, {"spec": {"ports": [{"name": "c", "port": 82, "protocol": "UDP", "nodePort": 31303}]}}))
    yield case("services/health-port", post(SERVICES, service({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31304, "ports": [{"port": 80}]})), patch(s, {"spec": {"externalTrafficPolicy": "Cluster"}}), patch(s, {"spec": {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 0}}), patch(s, {"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 31305}}), patch(s, {"spec": {"type": "NodePort"}}), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31305}]}, name="t")))
    yield case("services/dry-run", post(SERVICES + "?dryRun=All", service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31306}], "clusterIP": "10.96.32.2"})), get(s), post(SERVICES, service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31306}], "clusterIP": "10.96.32.2"})), patch(s + "?dryRun=All", {"spec": {"ports": [{"port": 80, "nodePort": 31307}]}}), delete(s + "?dryRun=All"), post(SERVICES + "?dryRun=All", service({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31306}]}, name="t")), put(s + "?dryRun=All", service({"ports": []})))
    yield case("services/put-create", put(s, service()), put(s + "?dryRun=All", service()), put(SERVICES + "/other", service()), put(s, service(None, resourceVersion="1")), put(s, service(None, uid="x")), put(s, service(None, resourceVersion="0")), put(s, service(None, resourceVersion="x")))
    yield case("services/status-kept", post(SERVICES, service({"type": "LoadBalancer", "ports": [{"port": 80}]})), patch(s + "/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}, "conditions": [{"type": "X", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}), put(s, service({"type": "LoadBalancer", "ports": [{"port": 81}]})), patch(s, {"spec": {"type": "NodePort"}}), patch(s, {"spec": {"type": "LoadBalancer"}}), get(s))
    yield case("services/generation", post(SERVICES, service()), patch(s, {"spec": {"selector": {"a": "b"}}}), patch(s, {"metadata": {"labels": {"a": "b"}}}), patch(s, {"metadata": {"generation": 5}}))
    yield case("services/kubernetes", get("/api/v1/namespaces/default/services/kubernetes", keep=["spec.clusterIP", "spec.ports", "metadata.labels"]))
