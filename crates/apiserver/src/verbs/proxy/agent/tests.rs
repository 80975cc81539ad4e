use serde_json::json;

use super::*;

#[test]
fn agent_address_is_the_internal_ip_of_its_node() {
    let node = |port: i64, ip: &str| {
        json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                          "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": ip}]}})
    };
    assert_eq!(
        agent_of(&node(10250, "fd00::1"), "n"),
        Ok("[fd00::1]:10250".to_owned())
    );
    assert!(agent_of(&node(0, "10.0.0.1"), "n").is_err());
    assert!(agent_of(&node(10250, "nonsense"), "n").is_err());
}

#[test]
fn control_characters_of_errors_are_escaped() {
    assert_eq!(escaped("no \u{1b}[2Jlog\u{9b}1m"), "no \\u{1b}[2Jlog\\u{9b}1m");
}
