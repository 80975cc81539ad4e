use std::collections::HashSet;

use api::object::ObjectKey;
use client::Event;
use serde_json::json;

use super::*;
use crate::worker::Update;
use crate::worker::tests::{Recorder, annotated, sync, worker};

#[test]
fn requests_wait_for_responses_within_bounds() {
    let start = Instant::now();
    let kept = KeptRequests::merge(None, CleanupScope::default(), start);
    assert_eq!(kept.at(), start + RESPONSE_TIME);
    let later = start + Duration::from_millis(500);
    let kept = KeptRequests::merge(Some(kept), CleanupScope::default(), later);
    assert_eq!(kept.at(), later + RESPONSE_TIME);
    let late = start + Duration::from_millis(4_900);
    let kept = KeptRequests::merge(Some(kept), CleanupScope::default(), late);
    assert_eq!(kept.at(), start + RESPONSE_TIME_MAX);
}

/// Applies a state of the endpoints of Service `a`, which has an annotation.
fn apply_endpoints(worker: &mut Worker<Recorder>, addresses: &[&str]) {
    let endpoints: Vec<_> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "nodeName": "node-b"}))
        .collect();
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "a-1", "labels": {"kubernetes.io/service-name": "a"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    });
    let slice = serde_json::from_value(slice).expect("a slice");
    worker.apply_update(Update::Slice(Event::Applied(slice)));
    worker.apply().expect("an applied change");
}

fn socket(cookie: u64, frontend: &str, endpoint: &str) -> ClientSocket {
    ClientSocket {
        cookie,
        frontend: frontend.parse().expect("an address"),
        endpoint: endpoint.parse().expect("an address"),
    }
}

fn cookies(recorder: &Recorder) -> Vec<u64> {
    let calls = recorder.calls();
    calls.sockets.iter().map(|socket| socket.cookie).collect()
}

#[test]
fn drained_sockets_of_clients_are_destroyed() {
    let (mut worker, recorder) = worker();
    let service = annotated(&json!({"service.portolan.dev/drain-seconds": "0"}), "None");
    worker.apply_update(service);
    sync(&mut worker);
    apply_endpoints(&mut worker, &["10.244.1.2", "10.244.1.3"]);
    recorder.calls().sockets = vec![
        socket(1, "10.96.0.1:80", "10.244.1.2:8080"),
        socket(2, "10.96.0.1:80", "10.244.1.3:8080"),
        socket(3, "10.96.0.9:80", "10.244.1.2:8080"),
    ];
    worker.end_drained();
    assert_eq!(cookies(&recorder), [1, 2, 3]);
    apply_endpoints(&mut worker, &["10.244.1.3"]);
    worker.end_drained();
    assert_eq!(cookies(&recorder), [2, 3]);
    assert_eq!(
        worker.shared_status.metrics.status()["drainedConnections"],
        json!(1)
    );
}

/// Sockets from before the start show departures that this process did not observe.
#[test]
fn sockets_to_endpoints_that_left_before_the_start_are_drained() {
    let (mut worker, recorder) = worker();
    recorder.calls().sockets = vec![
        socket(1, "10.96.0.1:80", "10.244.1.2:8080"),
        socket(2, "10.96.0.1:80", "10.244.1.3:8080"),
    ];
    let service = annotated(&json!({"service.portolan.dev/drain-seconds": "0"}), "None");
    worker.apply_update(service);
    sync(&mut worker);
    apply_endpoints(&mut worker, &["10.244.1.3"]);
    worker.end_drained();
    assert_eq!(cookies(&recorder), [2]);
}

#[test]
fn sockets_to_lost_endpoints_are_destroyed() {
    let (mut worker, recorder) = worker();
    worker.apply_update(annotated(&json!({}), "None"));
    sync(&mut worker);
    apply_endpoints(&mut worker, &["10.244.1.3"]);
    recorder.calls().sockets = vec![
        socket(1, "10.96.0.1:80", "10.244.1.2:8080"),
        socket(2, "10.96.0.1:80", "10.244.1.3:8080"),
        socket(3, "10.96.0.9:80", "10.244.1.2:8080"),
    ];
    let address = "10.244.1.2".parse().expect("IP");
    worker.reset_lost(&HashSet::from([(ObjectKey::new("ns", "a"), address)]));
    assert_eq!(cookies(&recorder), [2, 3]);
}
