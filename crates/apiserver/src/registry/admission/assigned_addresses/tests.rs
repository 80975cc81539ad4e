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
fn addresses_are_recorded_by_the_condition_alone() {
    assert_eq!(assigned(&service(&["192.0.2.1"], None)), None);
    assert_eq!(assigned(&service(&["192.0.2.1"], Some("False"))), None);
    let recorded = assigned(&service(&["192.0.2.1"], Some("True")));
    assert_ne!(recorded, None);
    assert_ne!(recorded, assigned(&service(&["192.0.2.2"], Some("True"))));
    assert_ne!(recorded, assigned(&service(&[], Some("True"))));
}

#[test]
fn states_of_ports_are_no_part_of_the_record() {
    let mut other = service(&["192.0.2.1"], Some("True"));
    other["status"]["loadBalancer"]["ingress"][0]["ports"][0]["error"] = json!("portolan.dev/CannotListen");
    assert_eq!(assigned(&other), assigned(&service(&["192.0.2.1"], Some("True"))));
    other["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("Proxy");
    assert_ne!(assigned(&other), assigned(&service(&["192.0.2.1"], Some("True"))));
}

/// A second condition of the type, which a list map refuses, hides nothing.
#[test]
fn single_true_condition_is_sufficient() {
    let mut twice = service(&["192.0.2.1"], Some("False"));
    let conditions = twice["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": CONDITION, "status": "True"}));
    assert_ne!(assigned(&twice), None);
}
