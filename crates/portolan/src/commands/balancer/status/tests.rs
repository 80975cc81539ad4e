use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

/// Status of the healthy process of `node-1`.
fn local_status() -> Value {
    json!({
        "node": "node-1",
        "assigner": {"syncs": 7},
        "announcer": {
            "ageSeconds": 0, "isQuorate": true,
            "members": [
                {"node": "node-1", "address": "192.0.2.1:7947", "isThis": true, "isJoining": false, "isReachable": true,
                 "isLeaving": false},
                {"node": "node-2", "address": "192.0.2.2:7947", "isThis": false, "isJoining": false, "isReachable": true,
                 "isLeaving": false, "probeAgeMilliseconds": 80},
            ],
            "addresses": [
                {"ip": "192.0.2.200", "node": "node-1", "candidates": 2, "services": ["shop/web"], "waitsForEdge": false},
                {"ip": "192.0.2.201", "node": "node-2", "candidates": 2, "services": ["shop/db"], "waitsForEdge": false},
            ],
        },
        "edge": [port()],
    })
}

fn port() -> Value {
    json!({
        "namespace": "shop", "service": "web", "port": 443, "protocol": "tcp", "frontend": "https",
        "addresses": ["192.0.2.200"], "openConnections": 2, "connections": 30, "receivedBytes": 1, "sentBytes": 2,
        "refused": {}, "lostLogLines": 0, "faults": [],
        "backends": [{"address": "10.0.0.1:8443", "state": "healthy", "underWay": 2, "connections": 30, "failures": 0}],
    })
}

fn service(name: &str, status: Value) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name}, "spec": {"type": "LoadBalancer"}, "status": status,
    })
}

fn assigned(ip: &str, mode: &str) -> Value {
    json!({
        "loadBalancer": {"ingress": [{"ip": ip, "ipMode": mode}]},
        "conditions": [{"type": "portolan.dev/AddressAssigned", "status": "True", "reason": "Assigned"}],
    })
}

fn pools() -> Value {
    json!([
        {"metadata": {"name": "office"}, "spec": {"addresses": ["192.0.2.200-192.0.2.203"]},
         "status": {"usage": [{"family": "IPv4", "total": 4, "assigned": 2}]}},
        {"metadata": {"name": "first"}, "spec": {"addresses": ["192.0.2.201-192.0.2.201"], "priority": 5},
         "status": {"usage": [{"family": "IPv4", "total": 1, "assigned": 1}]}},
    ])
}

fn api_state(services: &[Value]) -> ApiState {
    let read = |value: Value| serde_json::from_value(value).expect("an object");
    ApiState {
        services: Ok(services.iter().cloned().map(read).collect()),
        pools: Ok(serde_json::from_value(pools()).expect("pools")),
        assigner: Ok(None),
        announcing_nodes: BTreeMap::new(),
        not_queried: None,
    }
}

fn healthy_services() -> [Value; 2] {
    [
        service("web", assigned("192.0.2.200", "Proxy")),
        service("db", assigned("192.0.2.201", "VIP")),
    ]
}

fn report(local: Value, api: ApiState) -> Report {
    Report::new(
        Some(Ok(serde_json::from_value(local).expect("a status"))),
        api,
        now(),
    )
}

#[test]
fn healthy_report_has_a_line_per_service_and_port() {
    let report = report(local_status(), api_state(&healthy_services()));
    let expected = "\
Healthy           yes
Node              node-1
Assigned by       this process
Members           node-1 (this node), node-2 (responded 80 ms ago)
Pools in use      first: IPv4 1 of 1, exhausted
                  office: IPv4 2 of 4

SERVICE   ADDRESS      POOL    ANNOUNCED BY  ACCEPTED BY
shop/db   192.0.2.201  first   node-2        proxy
shop/web  192.0.2.200  office  node-1        edge

EDGE PORT           OPEN  ACCEPTED  REFUSED  LOG LINES LOST  BACKENDS
shop/web:443/https  2     30        -        -               1 healthy
";
    assert_eq!(text::render(&report), expected);
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["problems"], json!([]));
    assert_eq!(json["services"][1]["addresses"][0]["node"], "node-1");
}

#[test]
fn missing_kernel_features_are_reported_but_are_not_problems() {
    let mut local = local_status();
    local["announcer"]["forwardingUnavailable"] =
        json!(["IPv6: nftables: add rule to forward: No such file or directory"]);
    let report = report(local, api_state(&healthy_services()));
    let text = text::render(&report);
    assert!(text.starts_with("Healthy           yes\n"), "{text}");
    let line = "Planned moves     reset connections of IPv6: nftables: add rule to forward: No such file or directory\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn problems_are_first_and_name_a_remedy() {
    let mut local = local_status();
    local["announcer"]["members"][1] = json!({
        "node": "node-2", "address": "192.0.2.2:7947", "isThis": false, "isJoining": false, "isReachable": false,
        "isLeaving": false, "probeAgeMilliseconds": 130_000,
    });
    local["announcer"]["addresses"][1]["node"] = Value::Null;
    local["announcer"]["addresses"][1]["candidates"] = json!(0);
    local["announcer"]["addresses"][0]["waitsForEdge"] = json!(true);
    local["edge"][0]["refused"] = json!({"handshake": 3, "rate": 1});
    local["edge"][0]["faults"] = json!(["no valid certificate: TLS handshakes fail"]);
    local["edge"][0]["backends"][0]["state"] = json!("ejected");
    local["edge"][0]["backends"][0]["lastFailure"] = json!({"secondsAgo": 5, "reason": "connection refused"});
    let mut services = healthy_services().to_vec();
    services[0]["status"]["loadBalancer"]["ingress"][0]["ports"] =
        json!([{"port": 443, "protocol": "TCP", "error": "portolan.dev/NoCertificate"}]);
    services.push(service(
        "mail",
        json!({"conditions": [{
            "type": "portolan.dev/AddressAssigned", "status": "False", "reason": "NoAddress",
            "message": "no pool has an address of family IPv6",
        }]}),
    ));
    services.push(service("new", json!({})));
    // Other load balancers serve these.
    services.push(service(
        "cloud",
        json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}),
    ));
    let mut other = service("other", json!({}));
    other["spec"]["loadBalancerClass"] = json!("example.com/other");
    services.push(other);
    let report = report(local, api_state(&services));
    let expected = [
        "node-2 has not responded for 2m; delete its Node if it does not return",
        "192.0.2.200 of shop/web is not announced: this node owns it, but its edge does not serve it",
        "shop/web port 443/TCP: portolan.dev/NoCertificate",
        "192.0.2.201 of shop/db is not announced: no candidate nodes, because of labels, annotations, or \
         externalTrafficPolicy Local without ready endpoints",
        "shop/mail waits for an address: no pool has an address of family IPv6",
        "shop/new waits for an address: not reconciled yet; does a balancer run that serves its class?",
        "shop/web port 443/tcp at the edge: no valid certificate: TLS handshakes fail",
        "shop/web port 443/tcp at the edge: none of 1 backends is healthy",
    ];
    assert_eq!(report.problems, expected);
    let text = text::render(&report);
    assert!(
        text.starts_with("Healthy           no\nProblems          node-2 has not responded"),
        "{text}"
    );
    for line in [
        "shop/mail  <pending>    -       -             -",
        "shop/web:443/https backend 10.0.0.1:8443: ejected, failed 5s ago: connection refused",
    ] {
        assert!(
            text.lines().any(|printed| printed == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(
        text.contains("3 handshake, 1 rate") && !text.contains("cloud"),
        "{text}"
    );
}

#[test]
fn local_process_suffices_without_the_api() {
    let report = report(local_status(), ApiState::unreachable("no route to host"));
    assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
    let services: Vec<&str> = report.services.iter().map(|one| one.service.as_str()).collect();
    assert_eq!(services, ["shop/db", "shop/web"]);
    assert_eq!(report.services[0].addresses[0].node.as_deref(), Some("node-2"));
}

#[test]
fn events_name_the_announcing_nodes_without_a_local_process() {
    let events = json!([
        {"involvedObject": {"namespace": "shop", "name": "web"}, "lastTimestamp": "2026-03-01T11:59:00Z",
         "message": "announcing from node \"node-2\" with protocol \"layer2\""},
        {"involvedObject": {"namespace": "shop", "name": "web"}, "lastTimestamp": "2026-03-01T11:00:00Z",
         "message": "announcing from node \"node-1\" with protocol \"layer2\""},
    ]);
    let mut api = api_state(&healthy_services());
    api.announcing_nodes = api_state::announcing_nodes(serde_json::from_value(events).expect("Events"));
    let report = Report::new(None, api, now());
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.services[1].addresses[0].node.as_deref(), Some("node-2"));
    assert_eq!(report.services[0].addresses[0].node, None);
}

#[test]
fn expired_lease_of_the_assigner_is_a_problem() {
    let lease = |renewed: &str| {
        let lease =
            json!({"spec": {"holderIdentity": "node-9_1", "leaseDurationSeconds": 15, "renewTime": renewed}});
        Ok(Some(serde_json::from_value(lease).expect("a Lease")))
    };
    let of = |renewed: &str| {
        let api = ApiState {
            assigner: lease(renewed),
            ..api_state(&healthy_services())
        };
        Report::new(None, api, now())
    };
    let fresh = of("2026-03-01T11:59:50.000000Z");
    assert_eq!(
        (fresh.assigner.as_deref(), fresh.problems.len()),
        (Some("node-9_1"), 0)
    );
    let old = of("2026-03-01T11:59:30.000000Z");
    assert_eq!((old.assigner, old.problems.len()), (None, 1));
}

#[test]
fn missing_kubeconfig_is_not_a_problem_where_load_balancing_responds() {
    let report = report(local_status(), ApiState::not_queried("no kubeconfig found"));
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(text::render(&report).contains("This node only    no kubeconfig found"));
}
