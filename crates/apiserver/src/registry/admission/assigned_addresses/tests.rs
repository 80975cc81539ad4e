use serde_json::json;

use super::*;

fn service(ips: &[&str], assigned: Option<&str>) -> Value {
    let ingress: Vec<Value> = ips
        .iter()
        .map(|ip| json!({"ip": ip, "ipMode": "VIP", "ports": [{"port": 80}]}))
        .collect();
    let conditions: Vec<Value> = assigned
        .iter()
        .map(|status| json!({"type": CONDITION, "status": status}))
        .collect();
    json!({"status": {"loadBalancer": {"ingress": ingress}, "conditions": conditions}})
}

#[test]
fn addresses_are_assigned_only_with_the_condition() {
    assert_eq!(assigned_addresses(&service(&["192.0.2.1"], None)), None);
    assert_eq!(assigned_addresses(&service(&["192.0.2.1"], Some("False"))), None);
    let recorded = assigned_addresses(&service(&["192.0.2.1"], Some("True")));
    assert_ne!(recorded, None);
    assert_ne!(
        recorded,
        assigned_addresses(&service(&["192.0.2.2"], Some("True")))
    );
    assert_ne!(recorded, assigned_addresses(&service(&[], Some("True"))));
}

#[test]
fn port_states_are_not_compared() {
    let mut other = service(&["192.0.2.1"], Some("True"));
    other["status"]["loadBalancer"]["ingress"][0]["ports"][0]["error"] = json!("portolan.dev/CannotListen");
    assert_eq!(
        assigned_addresses(&other),
        assigned_addresses(&service(&["192.0.2.1"], Some("True")))
    );
    other["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("Proxy");
    assert_ne!(
        assigned_addresses(&other),
        assigned_addresses(&service(&["192.0.2.1"], Some("True")))
    );
}

/// List maps reject a second condition of one type; if there is one, it counts too.
#[test]
fn single_true_condition_is_sufficient() {
    let mut twice = service(&["192.0.2.1"], Some("False"));
    let conditions = twice["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": CONDITION, "status": "True"}));
    assert_ne!(assigned_addresses(&twice), None);
}
