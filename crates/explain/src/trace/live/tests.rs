use super::super::report::EndpointState;
use super::*;

const DESTINATION: &str = "10.96.0.5:80";
const CLIENT: &str = "10.244.1.9:40000";

fn client(kind: ClientKind) -> Client {
    Client {
        kind,
        namespace: "shop".to_owned(),
        name: "cart".to_owned(),
        addresses: Vec::new(),
        node: "node-a".to_owned(),
    }
}

fn path(verdict: Verdict, endpoints: &[&str], masquerade: bool) -> Path {
    let endpoint = |text: &&str| {
        let address: SocketAddr = text.parse().expect("an address");
        ChosenEndpoint {
            address: address.ip(),
            port: address.port(),
            chance: 1.0 / endpoints.len() as f64,
            masquerade,
            state: EndpointState::default(),
            declared_by: None,
        }
    };
    Path {
        nodes: vec!["node-a".to_owned()],
        addresses: Vec::new(),
        source: None,
        steps: Vec::new(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        excluded: Vec::new(),
        affinity_seconds: None,
        verdict,
        reason: String::new(),
    }
}

/// Connection with an endpoint and the address that it sees; without an entry if the endpoint is "".
fn connection(response: Response, endpoint: &str, client_seen: &str) -> Connection {
    Connection {
        source: CLIENT.parse().expect("an address"),
        destination: DESTINATION.parse().expect("an address"),
        response,
        milliseconds: 1,
        at_connect: None,
        entry: (!endpoint.is_empty()).then(|| Entry {
            endpoint: endpoint.parse().expect("an address"),
            client_seen: client_seen.parse().expect("an address"),
        }),
        rules: Vec::new(),
        disagreements: Vec::new(),
    }
}

const ALL: Evidence = Evidence {
    conntrack: true,
    rules: true,
    translation: true,
};

fn compared(path: &Path, connection: &Connection, evidence: Evidence) -> String {
    let found = disagreements(path, &client(ClientKind::Pod), connection, evidence);
    found.map(|found| found.to_string()).unwrap_or_default()
}

#[test]
fn planned_endpoint_is_not_a_difference() {
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080", "10.244.2.2:8080"], false);
    for response in [Response::Answered, Response::Refused, Response::Timeout] {
        let sent = connection(response, "10.244.2.2:8080", "10.244.1.9");
        assert_eq!(
            compared(&plan, &sent, ALL),
            "",
            "an endpoint may refuse by itself"
        );
    }
}

#[test]
fn unplanned_endpoint_is_a_difference() {
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080"], false);
    let cases = [
        ("10.244.9.9:8080", "translates the destination to 10.244.9.9:8080"),
        ("10.244.1.2:81", "translates the destination to 10.244.1.2:81"),
        (DESTINATION, "does not translate the destination"),
    ];
    for (endpoint, kernel) in cases {
        let sent = connection(Response::Answered, endpoint, "10.244.1.9");
        assert_eq!(
            compared(&plan, &sent, ALL),
            format!("plan: forwards to 10.244.1.2:8080, kernel: {kernel}")
        );
    }
    let dropped = connection(Response::Timeout, "", "");
    assert_eq!(
        compared(&plan, &dropped, ALL),
        "plan: forwards to 10.244.1.2:8080, kernel: no response, without a conntrack entry"
    );
}

#[test]
fn masquerading_is_compared_except_for_the_node() {
    let sent = connection(Response::Answered, "10.244.1.2:8080", "192.0.2.11");
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080"], false);
    assert_eq!(
        compared(&plan, &sent, ALL),
        "plan: does not masquerade connections to 10.244.1.2:8080, kernel: the endpoint sees 192.0.2.11"
    );
    assert_eq!(disagreements(&plan, &client(ClientKind::Node), &sent, ALL), None);
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080"], true);
    assert_eq!(compared(&plan, &sent, ALL), "");
    let sent = connection(Response::Answered, "10.244.1.2:8080", "10.244.1.9");
    assert!(compared(&plan, &sent, ALL).starts_with("plan: masquerades connections"));
}

#[test]
fn refusals_and_drops_are_compared_with_the_response() {
    let (refused, dropped) = (
        path(Verdict::Refused, &[], false),
        path(Verdict::Dropped, &[], false),
    );
    let without = |response| connection(response, "", "");
    assert_eq!(compared(&refused, &without(Response::Refused), ALL), "");
    assert_eq!(compared(&refused, &without(Response::NotPermitted), ALL), "");
    assert_eq!(compared(&dropped, &without(Response::Timeout), ALL), "");
    assert_eq!(
        compared(&refused, &without(Response::Timeout), ALL),
        "plan: refuses the connection, kernel: no response"
    );
    assert_eq!(
        compared(&dropped, &without(Response::Refused), ALL),
        "plan: drops the packets, kernel: refused"
    );
    let forwarded = connection(Response::Refused, "10.244.1.2:8080", "10.244.1.9");
    assert_eq!(
        compared(&refused, &forwarded, ALL),
        "plan: refuses the connection, kernel: translates the destination to 10.244.1.2:8080"
    );
}

#[test]
fn destinations_outside_of_services_are_not_translated() {
    let plan = path(Verdict::LeavesTheCluster, &[], false);
    let sent = connection(Response::Timeout, DESTINATION, "192.0.2.11");
    assert_eq!(compared(&plan, &sent, ALL), "", "masquerading is not the proxy's");
    let sent = connection(Response::Timeout, "10.244.1.2:8080", "10.244.1.9");
    assert!(compared(&plan, &sent, ALL).ends_with("translates the destination to 10.244.1.2:8080"));
}

#[test]
fn rule_that_drops_is_named() {
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080"], false);
    let mut sent = connection(Response::Timeout, "", "");
    sent.rules.push(MatchedRule {
        table: "ip filter".to_owned(),
        chain: "FORWARD".to_owned(),
        verdict: "drop".to_owned(),
        drops: true,
    });
    assert_eq!(
        compared(&plan, &sent, ALL),
        "plan: forwards to 10.244.1.2:8080, kernel: drops or rejects the packet in chain FORWARD of table ip filter"
    );
}

#[test]
fn unread_parts_give_no_conclusions() {
    let plan = path(Verdict::Reaches, &["10.244.1.2:8080"], false);
    let sent = connection(Response::Answered, "", "");
    for evidence in [
        Evidence {
            conntrack: false,
            ..ALL
        },
        Evidence {
            translation: false,
            ..ALL
        },
    ] {
        assert_eq!(compared(&plan, &sent, evidence), "");
    }
}

#[test]
fn affinity_keeps_the_endpoint() {
    let mut plan = path(Verdict::Reaches, &["10.244.1.2:8080", "10.244.2.2:8080"], false);
    let sent = |endpoint| connection(Response::Answered, endpoint, "10.244.1.9");
    let mut live = Live {
        mode: None,
        evidence: ALL,
        notes: Vec::new(),
        connections: vec![sent("10.244.1.2:8080"), sent("10.244.2.2:8080")],
    };
    live.compare(&plan, &client(ClientKind::Pod));
    assert!(!live.has_disagreement());
    plan.affinity_seconds = Some(10);
    live.compare(&plan, &client(ClientKind::Pod));
    let found = &live.connections[1].disagreements;
    assert_eq!(found[0].kernel, "endpoints 10.244.1.2:8080 and 10.244.2.2:8080");
    live.connections.pop();
    live.compare(&plan, &client(ClientKind::Pod));
    assert!(!live.has_disagreement());
}

/// Connection whose endpoint an eBPF program chose; connection tracking has no entry of the destination.
fn connection_by_ebpf(response: Response, at_connect: AtConnect) -> Connection {
    Connection {
        at_connect: Some(at_connect),
        ..connection(response, "", "")
    }
}

#[test]
fn endpoint_of_an_ebpf_program_needs_no_conntrack_entry() {
    let path = path(Verdict::Reaches, &["10.244.1.2:8080", "10.244.1.3:8080"], false);
    let client = client(ClientKind::Pod);
    let found = |endpoint: &str, evidence| {
        let endpoint = AtConnect::Endpoint(endpoint.parse().expect("an address"));
        let sent = connection_by_ebpf(Response::Answered, endpoint);
        disagreements(&path, &client, &sent, evidence).map(|found| found.kernel)
    };
    assert_eq!(found("10.244.1.3:8080", ALL), None);
    let without = Evidence {
        conntrack: false,
        ..ALL
    };
    let other = Some("translates the destination to 10.244.9.9:8080".to_owned());
    assert_eq!(found("10.244.9.9:8080", ALL), other);
    assert_eq!(found("10.244.9.9:8080", without), other);
}

#[test]
fn refusal_of_an_ebpf_program_is_compared() {
    let sent = connection_by_ebpf(Response::Refused, AtConnect::Refused);
    let client = client(ClientKind::Pod);
    let reaching = path(Verdict::Reaches, &["10.244.1.2:8080"], false);
    let found = disagreements(&reaching, &client, &sent, ALL).expect("a difference");
    assert_eq!(found.kernel, "an eBPF program refuses the connection");
    let refusing = path(Verdict::Refused, &[], false);
    assert_eq!(disagreements(&refusing, &client, &sent, ALL), None);
}
