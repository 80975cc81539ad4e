use serde_json::{Value, json};

use super::*;

fn read(ports: &[Value]) -> SliceRecord {
    let slice = json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.244.1.2"]}],
        "ports": ports,
    });
    let slice = serde_json::from_value(slice).expect("a slice");
    SliceRecord::read(&slice, "node-a", &mut Interner::default()).expect("a record")
}

#[test]
fn ports_are_found_by_name_and_protocol() {
    let record = read(&[
        json!({"name": "web", "port": 80}),
        json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        json!({"name": "", "port": 1}),
        json!({"name": "dns", "port": 5353}),
        json!({"name": "web", "port": 8080}),
    ]);
    let numbers = |name: &str, protocol| -> Vec<u16> {
        record
            .ports_named(name, protocol)
            .map(|port| port.number)
            .collect()
    };
    assert_eq!(numbers("web", Protocol::Tcp), [80, 8080]);
    assert_eq!(numbers("web", Protocol::Udp), [0; 0]);
    assert_eq!(numbers("dns", Protocol::Tcp), [5353]);
    assert_eq!(numbers("dns", Protocol::Udp), [53]);
    assert_eq!(numbers("", Protocol::Tcp), [1]);
    assert_eq!(numbers("other", Protocol::Tcp), [0; 0]);
}
