use api::kind;
use serde_json::json;

use super::*;

fn target(plural: &str, group: &str, namespace: &str, name: &str) -> Target {
    let kind = kind::find(group, "v1", plural).unwrap();
    Target::object(kind, namespace, name)
}

#[test]
fn services_keep_external_ips_but_get_no_new_ones() {
    let target = target("services", "", "n", "s");
    let with = |ips: serde_json::Value| json!({"metadata": {"name": "s"}, "spec": {"externalIPs": ips}});
    let create = |ips| external_ips::admit(&WriteAttempt::create(&target, None), &with(ips)).is_ok();
    assert!(create(json!([])));
    assert!(!create(json!(["192.0.2.1"])));
    let stored = with(json!(["192.0.2.1", "192.0.2.2"]));
    let update = |ips| external_ips::admit(&WriteAttempt::update(&target, None, &stored), &with(ips)).is_ok();
    assert!(update(json!(["192.0.2.2"])));
    assert!(!update(json!(["192.0.2.2", "192.0.2.3"])));
}
