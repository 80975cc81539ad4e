use api::object::EndpointSlice;
use serde_json::{Value, json};

use super::*;
use crate::{Plan, Settings};

/// State of an endpoint in a slice.
#[derive(Clone, Copy)]
enum State {
    Ready,
    Unready,
    Terminating,
}

fn endpoint(address: &str, node: Option<&str>, state: State) -> Value {
    let conditions = match state {
        State::Ready => json!({"ready": true}),
        State::Unready => json!({"ready": false, "serving": false}),
        State::Terminating => json!({"ready": false, "serving": true, "terminating": true}),
    };
    json!({"addresses": [address], "nodeName": node, "conditions": conditions})
}

fn slice(endpoints: &[Value]) -> EndpointSlice {
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "", "port": 8080}],
        "endpoints": endpoints,
    });
    serde_json::from_value(slice).expect("a slice")
}

fn plan() -> Plan {
    Plan::new(Settings {
        node_name: "node-a".to_owned(),
        ..Settings::default()
    })
}

/// Returns the nodes of the endpoints that leave between two states of a slice.
fn departed(before: &[Value], after: &[Value]) -> Vec<DepartedEndpoint> {
    let mut plan = plan();
    plan.apply_slice(&slice(before));
    plan.apply_slice(&slice(after));
    plan.take_departed()
}

#[test]
fn reports_unready_and_missing_endpoints_of_other_nodes() {
    let all = |state| {
        [
            endpoint("10.244.1.2", Some("node-b"), state),
            endpoint("10.244.0.2", Some("node-a"), state),
            endpoint("10.244.9.9", None, state),
        ]
    };
    let expected = [DepartedEndpoint {
        service: ObjectKey::new("ns", "web"),
        endpoint: "10.244.1.2:8080".parse().expect("an address"),
        node: "node-b".into(),
    }];
    assert_eq!(departed(&all(State::Ready), &all(State::Unready)), expected);
    assert_eq!(departed(&all(State::Ready), &[]), expected);
}

#[test]
fn reports_no_endpoint_that_terminates_or_was_unready() {
    let of = |state| [endpoint("10.244.1.2", Some("node-b"), state)];
    assert_eq!(departed(&of(State::Ready), &of(State::Terminating)), []);
    assert_eq!(departed(&of(State::Terminating), &[]), []);
    assert_eq!(departed(&of(State::Unready), &[]), []);
    assert_eq!(departed(&of(State::Unready), &of(State::Ready)), []);
}

#[test]
fn reports_endpoints_of_deleted_slice_once() {
    let mut plan = plan();
    let slice = slice(&[endpoint("10.244.1.2", Some("node-b"), State::Ready)]);
    plan.apply_slice(&slice);
    plan.remove_slice(&slice.metadata.key());
    assert_eq!(plan.take_departed().len(), 1);
    assert_eq!(plan.take_departed(), []);
}

#[test]
fn list_is_bounded() {
    let mut list = DepartedList::default();
    let mut names = crate::interner::Interner::default();
    let endpoints: Vec<Value> = (0..200)
        .map(|number| endpoint(&format!("10.244.1.{number}"), Some("node-b"), State::Ready))
        .collect();
    let record = SliceRecord::read(&slice(&endpoints), "node-a", &mut names).expect("a record");
    let service = ObjectKey::new("ns", "web");
    for _ in 0..DEPARTED_MAX {
        list.record(&service, &record, None);
    }
    assert_eq!(list.take().len(), DEPARTED_MAX);
}
