use jiff::Timestamp;

use super::lease::microseconds;
use super::status::status;
use super::*;

fn settings() -> Settings {
    let mut settings = Settings::new("node-1".to_owned(), "/nowhere".into());
    settings.pod_cidrs = vec![
        "10.244.1.0/24".parse().unwrap(),
        "fd00:244:1::/64".parse().unwrap(),
    ];
    settings.node_labels = [("topology.kubernetes.io/zone".to_owned(), "a".to_owned())].into();
    settings
}

#[test]
fn object_has_configured_ranges_labels_and_taints() {
    let settings = settings();
    let node = object(&settings, &settings.pod_cidrs);
    assert_eq!(node["spec"]["podCIDR"], "10.244.1.0/24");
    assert_eq!(node["spec"]["podCIDRs"][1], "fd00:244:1::/64");
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
    let bare = Settings::new("n".to_owned(), "/nowhere".into());
    assert!(object(&bare, &bare.pod_cidrs).get("spec").is_none());
    let mut tainted = settings;
    tainted.node_taints = vec![crate::NodeTaint {
        key: "node-role.kubernetes.io/control-plane".to_owned(),
        effect: "NoSchedule".to_owned(),
    }];
    let taint = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    assert_eq!(object(&tainted, &[])["spec"]["taints"], taint);
}

#[test]
fn single_range_replaces_a_missing_list() {
    let node = |spec: Value| {
        serde_json::from_value::<Node>(json!({"metadata": {"name": "n"}, "spec": spec})).unwrap()
    };
    let texts = |spec: Value| {
        ranges(&node(spec))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(json!({"podCIDR": "10.0.0.0/24"})), ["10.0.0.0/24"]);
    assert_eq!(
        texts(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]})),
        ["10.0.0.0/24", "fd00::/64"]
    );
    assert!(texts(json!({})).is_empty());
    assert!(texts(json!({"podCIDR": "nonsense"})).is_empty());
}

#[test]
fn ready_node_keeps_its_transition_time() {
    let ips = ["172.30.0.11".parse().unwrap()];
    let status = |was_ready| status(&settings(), &ips, was_ready, Timestamp::UNIX_EPOCH);
    let ready = |status: &Value| status["conditions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        ready(&status(false))["lastTransitionTime"],
        "1970-01-01T00:00:00Z"
    );
    assert_eq!(ready(&status(true)).get("lastTransitionTime"), None);
    assert_eq!(
        status(true)["addresses"][1],
        json!({"type": "InternalIP", "address": "172.30.0.11"})
    );
    assert_eq!(microseconds(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
}
