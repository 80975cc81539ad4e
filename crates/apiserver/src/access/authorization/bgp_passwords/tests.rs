use serde_json::json;

use super::*;

#[test]
fn references_secrets_of_kube_system_only() {
    let secret = |reference: Value| {
        let peer = json!({"spec": {"passwordSecret": reference}});
        secret_of(peer.to_string().as_bytes())
    };
    assert_eq!(secret(json!({"name": "a"})).as_deref(), Some("a"));
    assert_eq!(
        secret(json!({"name": "a", "namespace": "kube-system"})).as_deref(),
        Some("a")
    );
    assert_eq!(secret(json!({"name": "a", "namespace": "default"})), None);
    assert_eq!(secret(json!({})), None);
    assert_eq!(secret_of(b"no JSON"), None);
}

#[test]
fn announcers_are_recognized_and_others_are_not() {
    let user = |name: &str, groups: &[&str]| Identity {
        user: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    };
    assert!(is_announcer(&user(
        "system:portolan-announcer:n",
        &["system:portolan:announcers"]
    )));
    assert!(is_announcer(&user("system:portolan-load-balancer", &[])));
    for (name, groups) in [
        ("system:portolan-edge:n", &["system:portolan:edges"][..]),
        ("system:node:n", &["system:nodes"]),
        ("system:serviceaccount:kube-system:portolan-edge", &[]),
        ("", &[]),
    ] {
        assert!(!is_announcer(&user(name, groups)), "{name}");
    }
}
