use netlink::conntrack::Direction;
use plan::Settings;
use serde_json::json;

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn flow(endpoint: &str, start: u64) -> Flow {
    let client = address(&format!("10.244.0.2:{}", 40_000 + start));
    Flow {
        protocol: 6,
        original: Direction {
            source: client,
            destination: address("10.96.0.5:80"),
        },
        reply: Direction {
            source: address(endpoint),
            destination: client,
        },
        counters: None,
        tcp_state: None,
        expires_in_seconds: 0,
        began_at_nanoseconds: Some(start),
        is_replied: true,
        is_assured: true,
        id: 0,
        zone: 0,
    }
}

fn put(plan: &mut Plan, endpoints: &[&str], annotations: &serde_json::Value, affinity: &str) -> Changes {
    let service = json!({
        "metadata": {"namespace": "ns", "name": "web", "annotations": annotations},
        "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}], "sessionAffinity": affinity},
    });
    plan.apply_service(&serde_json::from_value(service).expect("a Service"));
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|address| json!({"addresses": [address]}))
        .collect();
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    });
    plan.apply_slice(&serde_json::from_value(slice).expect("a slice"));
    plan.take_changes()
}

#[test]
fn oldest_connections_beyond_the_share_end() {
    let endpoints = ["10.244.1.2:8080", "10.244.1.3:8080", "10.244.1.4:8080"].map(address);
    let flows = || {
        let first = (0..8).map(|start| flow("10.244.1.2:8080", 10 + start));
        let second = (0..4).map(|start| flow("10.244.1.3:8080", 50 + start));
        first.chain(second).collect::<Vec<_>>()
    };
    let start_times = |percent| {
        let ended = excess_connections(flows(), &endpoints, percent);
        assert!(ended.iter().all(|flow| flow.reply.source == endpoints[0]));
        ended
            .iter()
            .filter_map(|flow| flow.began_at_nanoseconds)
            .collect::<Vec<_>>()
    };
    assert_eq!(start_times(100), [10, 11, 12, 13], "the share is four");
    assert_eq!(start_times(25), [10, 11, 12]);
    assert_eq!(start_times(1), [10], "at least one");
}

#[test]
fn busiest_endpoints_lose_connections_first() {
    let endpoints = ["10.244.1.2:8080", "10.244.1.3:8080", "10.244.1.4:8080"].map(address);
    let flows = [("10.244.1.2:8080", 5), ("10.244.1.3:8080", 7)];
    let flows = flows
        .into_iter()
        .flat_map(|(endpoint, count)| (0..count).map(move |start| flow(endpoint, start)));
    let ended = excess_connections(flows.collect(), &endpoints, 25);
    let ends: Vec<_> = ended.iter().map(|flow| flow.reply.source).collect();
    assert_eq!(ends, [endpoints[1], endpoints[1], endpoints[0]]);
}

#[test]
fn equal_connections_and_those_of_departed_endpoints_stay() {
    let endpoints = ["10.244.1.2:8080", "10.244.1.3:8080"].map(address);
    let equal = vec![flow("10.244.1.2:8080", 1), flow("10.244.1.3:8080", 2)];
    assert_eq!(excess_connections(equal, &endpoints, 100), []);
    let departed = (0..9).map(|start| flow("10.244.1.9:8080", start));
    assert_eq!(excess_connections(departed.collect(), &endpoints, 100), []);
    assert_eq!(excess_connections(Vec::new(), &[], 100), []);
}

#[test]
fn scale_out_is_due_after_settling() {
    let (mut plan, mut rebalancing, now) = (
        Plan::new(Settings::default()),
        Rebalancing::default(),
        Instant::now(),
    );
    let annotations = json!({"service.portolan.dev/rebalance-percent": "20"});
    for (endpoints, is_due) in [
        (&["10.244.1.2", "10.244.1.3"][..], false),
        (&["10.244.1.3"], false),
        (&["10.244.1.3", "10.244.1.4"], true),
    ] {
        let changes = put(&mut plan, endpoints, &annotations, "None");
        rebalancing.record(&plan, &changes, now);
        assert_eq!(
            rebalancing.next(),
            is_due.then_some(now + SETTLING_TIME),
            "{endpoints:?}"
        );
    }
    assert!(rebalancing.is_used());
    assert!(rebalancing.due(now).is_empty());
    assert_eq!(rebalancing.due(now + SETTLING_TIME).len(), 1);
    assert_eq!(rebalancing.next(), None);
}

#[test]
fn services_without_annotation_or_with_fixed_choice_are_not_due() {
    for (annotations, affinity) in [
        (json!({}), "None"),
        (
            json!({"service.portolan.dev/rebalance-percent": "20"}),
            "ClientIP",
        ),
        (
            json!({"service.portolan.dev/rebalance-percent": "20", "service.portolan.dev/scheduler": "maglev"}),
            "None",
        ),
    ] {
        let (mut plan, mut rebalancing) = (Plan::new(Settings::default()), Rebalancing::default());
        for endpoints in [&["10.244.1.2"][..], &["10.244.1.2", "10.244.1.3"]] {
            let changes = put(&mut plan, endpoints, &annotations, affinity);
            rebalancing.record(&plan, &changes, Instant::now());
        }
        assert_eq!(rebalancing.next(), None, "{annotations} {affinity}");
        assert!(!rebalancing.is_used());
    }
}

#[test]
fn deleted_service_is_not_due() {
    let (mut plan, mut rebalancing, now) = (
        Plan::new(Settings::default()),
        Rebalancing::default(),
        Instant::now(),
    );
    let annotations = json!({"service.portolan.dev/rebalance-percent": "20"});
    for endpoints in [&["10.244.1.2"][..], &["10.244.1.2", "10.244.1.3"]] {
        let changes = put(&mut plan, endpoints, &annotations, "None");
        rebalancing.record(&plan, &changes, now);
    }
    plan.remove_service(&ObjectKey::new("ns", "web"));
    let changes = plan.take_changes();
    rebalancing.record(&plan, &changes, now);
    assert_eq!(rebalancing.next(), None);
}

#[test]
fn rest_of_a_scale_out_follows_and_a_later_scale_out_replaces_it() {
    let (mut plan, mut rebalancing, now) = (
        Plan::new(Settings::default()),
        Rebalancing::default(),
        Instant::now(),
    );
    let annotations = json!({"service.portolan.dev/rebalance-percent": "20"});
    for endpoints in [&["10.244.1.2"][..], &["10.244.1.2", "10.244.1.3"]] {
        let changes = put(&mut plan, endpoints, &annotations, "None");
        rebalancing.record(&plan, &changes, now);
    }
    let later = now + SETTLING_TIME;
    let due = rebalancing.due(later);
    let key = due.first().expect("a Service port");
    assert_eq!(rebalancing.take_left(key), None);
    rebalancing.resume(key, [0, 0], later);
    assert_eq!(rebalancing.next(), None);
    rebalancing.resume(key, [3, 0], later);
    assert_eq!(rebalancing.next(), Some(later));
    assert_eq!(rebalancing.due(later).len(), 1);
    assert_eq!(rebalancing.take_left(key), Some([3, 0]));
    rebalancing.resume(key, [2, 0], later);
    let changes = put(
        &mut plan,
        &["10.244.1.2", "10.244.1.3", "10.244.1.4"],
        &annotations,
        "None",
    );
    rebalancing.record(&plan, &changes, later);
    assert_eq!(rebalancing.next(), Some(later + SETTLING_TIME));
    assert_eq!(rebalancing.take_left(key), None);
}
