use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

/// What the process of `node-1` says when all is well.
fn page() -> Value {
    json!({
        "node": "node-1",
        "assigner": {"syncs": 7},
        "announcer": {
            "saidSecondsAgo": 0, "isQuorate": true,
            "members": [
                {"node": "node-1", "address": "192.0.2.1:7947", "isThis": true, "isJoining": false, "isHeard": true,
                 "isLeaving": false},
                {"node": "node-2", "address": "192.0.2.2:7947", "isThis": false, "isJoining": false, "isHeard": true,
                 "isLeaving": false, "heardMillisecondsAgo": 80},
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

fn asked(services: &[Value]) -> Asked {
    let read = |value: Value| serde_json::from_value(value).expect("an object");
    Asked {
        services: Ok(services.iter().cloned().map(read).collect()),
        pools: Ok(serde_json::from_value(pools()).expect("pools")),
        assigner: Ok(None),
        taken: BTreeMap::new(),
    }
}

fn well() -> [Value; 2] {
    [
        service("web", assigned("192.0.2.200", "Proxy")),
        service("db", assigned("192.0.2.201", "VIP")),
    ]
}

fn report(page: Value, asked: Asked) -> Report {
    Report::new(
        Some(Ok(serde_json::from_value(page).expect("a page"))),
        asked,
        now(),
    )
}

#[test]
fn all_is_well_and_can_be_read() {
    let report = report(page(), asked(&well()));
    let expected = "\
Well              yes
Node              node-1
Assigned by       this process
Members           node-1 (this one), node-2 (heard 80 ms ago)
Pools in use      first: IPv4 1 of 1, none is left
                  office: IPv4 2 of 4

SERVICE   ADDRESS      POOL    ANNOUNCED BY  TAKEN BY
shop/db   192.0.2.201  first   node-2        proxy
shop/web  192.0.2.200  office  node-1        edge

PORT OF THE EDGE    OPEN  TAKEN  REFUSED  LOG LINES LOST  BACKENDS
shop/web:443/https  2     30     -        -               1 healthy
";
    assert_eq!(text::of(&report), expected);
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["wrong"], json!([]));
    assert_eq!(json["services"][1]["addresses"][0]["node"], "node-1");
}

/// It is no fault of this moment, and nothing that could be mended at night.
#[test]
fn what_the_kernel_lacks_is_told_and_is_not_wrong() {
    let mut page = page();
    page["announcer"]["cannotLead"] = json!(["IPv6: nftables: add rule to lead: No such file or directory"]);
    let report = report(page, asked(&well()));
    let text = text::of(&report);
    assert!(text.starts_with("Well              yes\n"), "{text}");
    let line = "Moves             lose open connections of IPv6: nftables: add rule to lead: No such file or directory\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn what_is_wrong_comes_first_with_what_to_do() {
    let mut page = page();
    page["announcer"]["members"][1] = json!({
        "node": "node-2", "address": "192.0.2.2:7947", "isThis": false, "isJoining": false, "isHeard": false,
        "isLeaving": false, "heardMillisecondsAgo": 130_000,
    });
    page["announcer"]["addresses"][1]["node"] = Value::Null;
    page["announcer"]["addresses"][1]["candidates"] = json!(0);
    page["announcer"]["addresses"][0]["waitsForEdge"] = json!(true);
    page["edge"][0]["refused"] = json!({"handshake": 3, "rate": 1});
    page["edge"][0]["faults"] = json!(["no valid certificate: TLS handshakes fail"]);
    page["edge"][0]["backends"][0]["state"] = json!("ejected");
    page["edge"][0]["backends"][0]["lastFailure"] = json!({"secondsAgo": 5, "why": "connection refused"});
    let mut services = well().to_vec();
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
    // Others' balancers serve these.
    services.push(service(
        "cloud",
        json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}),
    ));
    let mut other = service("other", json!({}));
    other["spec"]["loadBalancerClass"] = json!("example.com/other");
    services.push(other);
    let report = report(page, asked(&services));
    let expected = [
        "node-2 is silent for 2m; if its machine will not come back, delete its Node",
        "192.0.2.200 of shop/web is this machine's, and not announced: its edge does not serve it",
        "shop/web port 443/TCP: portolan.dev/NoCertificate",
        "192.0.2.201 of shop/db is announced by nobody: no node may, by labels, annotations, or externalTrafficPolicy \
         Local without ready endpoints",
        "shop/mail waits for its address: no pool has an address of family IPv6",
        "shop/new waits for its address: no balancer has looked at it yet; does one run that serves its class?",
        "shop/web port 443/tcp at the edge: no valid certificate: TLS handshakes fail",
        "shop/web port 443/tcp at the edge: none of its 1 backends works",
    ];
    assert_eq!(report.wrong, expected);
    let text = text::of(&report);
    assert!(
        text.starts_with("Well              no\nWrong             node-2 is silent"),
        "{text}"
    );
    for line in [
        "shop/mail  <pending>    -       -             -",
        "shop/web:443/https backend 10.0.0.1:8443: ejected, failed 5s ago: connection refused",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
    assert!(
        text.contains("3 handshake, 1 rate") && !text.contains("cloud"),
        "{text}"
    );
}

#[test]
fn without_the_api_the_process_still_says_what_it_knows() {
    let report = report(page(), Asked::nothing("no route to host"));
    assert_eq!(report.wrong.len(), 3, "{:?}", report.wrong);
    let services: Vec<&str> = report.services.iter().map(|one| one.service.as_str()).collect();
    assert_eq!(services, ["shop/db", "shop/web"]);
    assert_eq!(report.services[0].addresses[0].node.as_deref(), Some("node-2"));
}

#[test]
fn without_the_process_the_events_say_who_took_an_address() {
    let told = json!([
        {"involvedObject": {"namespace": "shop", "name": "web"}, "lastTimestamp": "2026-03-01T11:59:00Z",
         "message": "announcing from node \"node-2\" with protocol \"layer2\""},
        {"involvedObject": {"namespace": "shop", "name": "web"}, "lastTimestamp": "2026-03-01T11:00:00Z",
         "message": "announcing from node \"node-1\" with protocol \"layer2\""},
    ]);
    let mut asked = asked(&well());
    asked.taken = asked::takers(serde_json::from_value(told).expect("Events"));
    let report = Report::new(None, asked, now());
    assert_eq!(report.wrong, Vec::<String>::new());
    assert_eq!(report.services[1].addresses[0].node.as_deref(), Some("node-2"));
    assert_eq!(report.services[0].addresses[0].node, None);
}

#[test]
fn an_assigner_that_is_gone_is_missed() {
    let lease = |renewed: &str| {
        let lease =
            json!({"spec": {"holderIdentity": "node-9_1", "leaseDurationSeconds": 15, "renewTime": renewed}});
        Ok(Some(serde_json::from_value(lease).expect("a Lease")))
    };
    let of = |renewed: &str| {
        let asked = Asked {
            assigner: lease(renewed),
            ..asked(&well())
        };
        Report::new(None, asked, now())
    };
    let fresh = of("2026-03-01T11:59:50.000000Z");
    assert_eq!(
        (fresh.assigner.as_deref(), fresh.wrong.len()),
        (Some("node-9_1"), 0)
    );
    let old = of("2026-03-01T11:59:30.000000Z");
    assert_eq!((old.assigner, old.wrong.len()), (None, 1));
}
