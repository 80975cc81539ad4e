use serde_json::json;

use super::*;

fn routes(list: serde_json::Value) -> Vec<Route> {
    serde_json::from_value(list).expect("routes")
}

#[test]
fn longest_prefix_and_lowest_metric_count() {
    let list = routes(json!([
        {"destination": "0.0.0.0/0", "type": "unicast"},
        {"destination": "10.244.0.0/16", "type": "blackhole"},
        {"destination": "10.244.2.0/24", "type": "unicast", "metric": 200},
        {"destination": "10.244.2.0/24", "type": "unreachable", "metric": 100},
        {"destination": "fd00::/8", "type": "unicast"},
    ]));
    let routes = Routes::new(&list);
    let kind = |address: &str| {
        let address = address.parse().expect("an address");
        routes.longest_match(address).map(|route| route.kind.as_str())
    };
    assert_eq!(kind("10.244.2.9"), Some("unreachable"));
    assert_eq!(kind("10.244.3.9"), Some("blackhole"));
    assert_eq!(kind("192.0.2.1"), Some("unicast"));
    assert_eq!(kind("fd00::1"), Some("unicast"));
    assert_eq!(kind("2001:db8::1"), None);
}
