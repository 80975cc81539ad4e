use api::object::{Endpoint, Service};
use serde_json::{Value, json};

use super::hints_of;

fn hints(distribution: Value, endpoint: Value) -> Value {
    let service: Service =
        serde_json::from_value(json!({"spec": {"trafficDistribution": distribution}})).expect("a Service");
    let endpoint: Endpoint = serde_json::from_value(endpoint).expect("an Endpoint");
    serde_json::to_value(hints_of(&endpoint, &service)).expect("JSON")
}

fn ready() -> Value {
    json!({"conditions": {"ready": true}, "zone": "z", "nodeName": "n"})
}

#[test]
fn ready_endpoints_have_hints_for_their_zone_and_node() {
    let zone = json!({"forZones": [{"name": "z"}]});
    let both = json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]});
    assert_eq!(hints(json!("PreferSameZone"), ready()), zone);
    assert_eq!(hints(json!("PreferClose"), ready()), zone);
    assert_eq!(hints(json!("PreferSameNode"), ready()), both);
    assert_eq!(hints(Value::Null, ready()), Value::Null);
    assert_eq!(hints(json!("Elsewhere"), ready()), Value::Null);
}

#[test]
fn unknown_zones_and_nodes_get_no_hints() {
    let unready = json!({"conditions": {"ready": false}, "zone": "z", "nodeName": "n"});
    assert_eq!(hints(json!("PreferSameZone"), unready), Value::Null);
    let no_zone = json!({"conditions": {"ready": true}, "nodeName": "n"});
    assert_eq!(hints(json!("PreferSameZone"), no_zone.clone()), Value::Null);
    assert_eq!(
        hints(json!("PreferSameNode"), no_zone),
        json!({"forNodes": [{"name": "n"}]})
    );
}
