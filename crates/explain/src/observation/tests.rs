use serde_json::json;

use super::*;

#[test]
fn all_parts_are_written_as_they_are_read() {
    let tree = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "node-a"},
        "observedAt": "2026-01-01T00:00:00Z",
        "hostname": "node-a",
        "proxies": [{"name": "portolan", "processID": 12, "mode": "nftables", "nodeName": "node-a", "healthy": true,
            "secondsSinceSync": 3, "secondsBehind": 0, "secondsWithoutAPI": 0, "clusterCIDRs": ["10.244.0.0/16"]}],
        "tables": [{"family": "inet", "name": "portolan", "dormant": false, "missing": 0, "changed": 0, "unexpected": 0,
            "chains": [{"name": "prerouting", "type": "nat", "hook": "prerouting", "priority": -100, "policy": "accept", "rules": 4}]}],
        "iptables": {"legacyRules": 0, "nftRules": 3, "services": ["nft"], "forward": [{"variant": "nft", "family": "IPv4",
            "policy": "DROP", "rules": [{"target": "ACCEPT", "inputLink": "docker0", "outputLink": "!docker0",
                "source": "10.244.0.0/16", "destination": "10.244.0.0/16", "targetRules": 2, "hasOtherMatches": true}]}]},
        "ipvsServices": 0,
        "firewalls": [{"name": "firewalld", "forwarding": "reject", "input": "reject", "trustedLinks": ["cni0"],
            "trustedSources": ["10.244.0.0/16"]}],
        "sysctls": {"net.ipv4.ip_forward": "1"},
        "counters": {"TcpExt.IPReversePathFilter": 0},
        "links": [{"name": "cni0", "kind": "bridge", "up": true, "mtu": 1450, "master": "bond0", "hairpin": true,
            "promiscuous": false, "addresses": ["10.244.1.1/24"], "pod": {"namespace": "shop", "name": "web-1"}}],
        "routes": [{"destination": "0.0.0.0/0", "type": "unicast", "gateway": "192.168.0.1", "link": "eth0", "metric": 100,
            "protocol": "static"}],
        "neighbours": [{"address": "192.168.0.1", "link": "eth0", "state": "reachable", "linkAddress": "02:00:00:00:00:01"}],
        "conntrack": {"entries": 10, "maximum": 1000, "insertFailed": 0, "drops": 0, "recentInsertFailed": 0, "recentDrops": 0,
            "flows": [{"protocol": "TCP", "source": "10.244.1.5", "sourcePort": 40000, "destination": "10.96.44.7",
                "destinationPort": 80, "replySource": "10.244.1.12", "replySourcePort": 8080, "replyDestination": "10.244.1.5",
                "replyDestinationPort": 40000, "state": "ESTABLISHED", "assured": true, "replied": true, "timeoutSeconds": 86400}],
            "masqueraded": [{"protocol": "UDP", "source": "192.168.0.11", "destination": "10.244.2.9", "destinationPort": 53,
                "connections": 7}]},
        "listeners": [{"protocol": "TCP", "address": "::", "port": 8080, "v6Only": false, "program": "web",
            "pod": {"namespace": "shop", "name": "web-1"}}],
        "inspectedPods": [{"namespace": "shop", "name": "web-1"}],
        "serviceVariables": [{"pod": {"namespace": "shop", "name": "web-1"}, "name": "WEB_SERVICE_HOST", "value": "10.96.44.7"}],
        "certificates": [{"path": "/etc/portolan/node.pem", "subject": "CN=node-a", "expires": "2027-01-01T00:00:00Z"}],
        "clockOffsetSeconds": 0.25,
        "localPortRange": [32768, 60999],
        "reservedPorts": [[30000, 32767]],
        "bgpSessions": [{"peer": "192.168.0.1", "state": "established", "program": "bgpd"}],
        "probes": [{"kind": "path-mtu", "from": "pod shop/web-1", "target": "10.244.2.9", "service": "shop/web",
            "outcome": "too-large", "milliseconds": 1, "status": 200, "answers": ["a"], "serverName": "b",
            "expires": "2027-01-01T00:00:00Z", "proxyProtocol": false, "bytes": 1450, "detail": "c"}],
        "truncated": ["routes"],
    });
    let observation: NodeObservation = serde_json::from_value(tree.clone()).expect("an observation");
    assert_eq!(serde_json::to_value(&observation).expect("JSON"), tree);
    assert!(observation.is_truncated("routes") && !observation.is_truncated("links"));
}

#[test]
fn invalid_parts_read_as_absent() {
    let tree = json!({"kind": KIND, "metadata": {"name": "node-a"}, "hostname": 7, "tables": [{"family": "inet"}],
        "routes": [{"destination": "10.0.0.0/8", "type": "unicast", "gateway": "x"}], "listeners": "x", "conntrack": null,
        "localPortRange": [1], "unknown": 1});
    let observation: NodeObservation = serde_json::from_value(tree).expect("an observation");
    assert_eq!(observation.hostname, None);
    assert_eq!(observation.tables, None);
    assert_eq!(observation.listeners, None);
    assert_eq!(observation.conntrack, None);
    assert_eq!(observation.local_port_range, None);
    let routes = observation.routes.expect("routes");
    assert_eq!(routes[0].gateway, None);
}

#[test]
fn observation_without_parts_has_only_a_name() {
    let tree = serde_json::to_value(NodeObservation::of_node("node-a")).expect("JSON");
    assert_eq!(
        tree,
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "node-a"}})
    );
}

#[test]
fn sources_of_probes_are_read() {
    let pod = ProbeSource::Pod(PodName {
        namespace: "shop".to_owned(),
        name: "web-1".to_owned(),
    });
    assert_eq!("pod shop/web-1".parse(), Ok(pod.clone()));
    assert_eq!(pod.to_string(), "pod shop/web-1");
    assert_eq!("outside".parse(), Ok(ProbeSource::Outside));
    for text in ["", "pod", "pod web-1", "host"] {
        assert!(text.parse::<ProbeSource>().is_err(), "{text}");
    }
}

#[test]
fn targets_of_probes_have_an_address() {
    let probe = |target: &str| -> Probe {
        let tree = json!({"kind": "tcp", "from": "node", "target": target, "outcome": "answered"});
        serde_json::from_value(tree).expect("a probe")
    };
    assert_eq!(probe("10.0.0.1:80").port(), Some(80));
    assert_eq!(probe("[2001:db8::1]:80").address(), "2001:db8::1".parse().ok());
    assert_eq!(probe("10.0.0.1").address(), "10.0.0.1".parse().ok());
    assert_eq!(probe("web.shop").address(), None);
}
