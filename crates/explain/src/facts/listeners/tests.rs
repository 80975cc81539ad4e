use serde_json::json;

use super::*;

#[test]
fn listener_takes_connections_to_its_addresses() {
    let takes = |address: &str, v6_only: Option<bool>, endpoint: &str| {
        let tree = json!({"protocol": "TCP", "address": address, "port": 80, "v6Only": v6_only});
        let listener: Listener = serde_json::from_value(tree).expect("a listener");
        super::takes_connections_to(&listener, endpoint.parse().expect("an address"))
    };
    assert!(takes("0.0.0.0", None, "10.244.1.2"));
    assert!(takes("::", Some(false), "10.244.1.2"));
    assert!(takes("::", None, "10.244.1.2"));
    assert!(takes("::", Some(true), "fd00::2"));
    assert!(takes("::ffff:10.244.1.2", None, "10.244.1.2"));
    assert!(takes("10.244.1.2", None, "10.244.1.2"));
    assert!(!takes("::", Some(true), "10.244.1.2"));
    assert!(!takes("0.0.0.0", None, "fd00::2"));
    assert!(!takes("10.244.1.3", None, "10.244.1.2"));
    assert!(!takes("127.0.0.1", None, "10.244.1.2"));
}
