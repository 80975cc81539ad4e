use serde_json::{Value, json};

use super::causes;
use crate::kinds::service::{ConfiguredFamilies, initialize_families, normalize_cluster_ips};
use crate::machinery::ip::Family;

const DUAL: ConfiguredFamilies = ConfiguredFamilies {
    primary: Family::V4,
    is_dual_stack: true,
};
const SINGLE: ConfiguredFamilies = ConfiguredFamilies {
    primary: Family::V4,
    is_dual_stack: false,
};
const IPV6_FIRST: ConfiguredFamilies = ConfiguredFamilies {
    primary: Family::V6,
    is_dual_stack: true,
};

/// Families of a new Service as `policy [families]`, or the causes of the rejection.
fn selected(spec: Value, configured: ConfiguredFamilies) -> String {
    let mut service = json!({"spec": spec});
    normalize_cluster_ips(&mut service, None);
    shown(initialize_families(&mut service, None, configured), &service)
}

fn updated(old: Value, new: Value, configured: ConfiguredFamilies) -> (String, Value) {
    let mut service = json!({"spec": new});
    let result = initialize_families(&mut service, Some(&json!({"spec": old})), configured);
    (shown(result, &service), service["spec"]["clusterIPs"].clone())
}

fn shown(result: Result<(), Vec<crate::machinery::field::FieldError>>, service: &Value) -> String {
    match result {
        Ok(()) => format!(
            "{} {}",
            service["spec"]["ipFamilyPolicy"].as_str().unwrap_or("-"),
            service["spec"]["ipFamilies"]
        ),
        Err(errors) => causes(&errors).join(", "),
    }
}

#[test]
fn new_services_get_the_primary_family() {
    assert_eq!(selected(json!({}), DUAL), r#"SingleStack ["IPv4"]"#);
    assert_eq!(selected(json!({}), IPV6_FIRST), r#"SingleStack ["IPv6"]"#);
    assert_eq!(
        selected(json!({"ipFamilyPolicy": "PreferDualStack"}), SINGLE),
        r#"PreferDualStack ["IPv4"]"#
    );
    assert_eq!(
        selected(
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}),
            DUAL
        ),
        r#"PreferDualStack ["IPv6","IPv4"]"#
    );
    assert_eq!(selected(json!({"type": "ExternalName"}), DUAL), "- null");
}

#[test]
fn families_follow_given_addresses() {
    assert_eq!(
        selected(json!({"clusterIP": "fd00::1"}), DUAL),
        r#"SingleStack ["IPv6"]"#
    );
    assert_eq!(
        selected(
            json!({"clusterIP": "fd00::1", "ipFamilyPolicy": "RequireDualStack"}),
            DUAL
        ),
        r#"RequireDualStack ["IPv6","IPv4"]"#
    );
    assert_eq!(
        selected(json!({"clusterIP": "fd00::1"}), SINGLE),
        "FieldValueInvalid spec.clusterIPs[0]"
    );
}

#[test]
fn headless_without_selector_may_use_both_families_in_any_cluster() {
    let both = r#"RequireDualStack ["IPv4","IPv6"]"#;
    assert_eq!(selected(json!({"clusterIP": "None"}), SINGLE), both);
    assert_eq!(
        selected(
            json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}),
            DUAL
        ),
        r#"SingleStack ["IPv4"]"#
    );
    assert_eq!(
        selected(json!({"clusterIP": "None", "selector": {"a": "b"}}), DUAL),
        r#"SingleStack ["IPv4"]"#
    );
}

#[test]
fn rejects_families_that_are_not_configured() {
    assert_eq!(
        selected(json!({"ipFamilyPolicy": "RequireDualStack"}), SINGLE),
        "FieldValueInvalid spec.ipFamilyPolicy"
    );
    assert_eq!(
        selected(json!({"ipFamilies": ["IPv6"]}), SINGLE),
        "FieldValueInvalid spec.ipFamilies[0]"
    );
    assert_eq!(
        selected(json!({"ipFamilies": ["IPv4", "IPv6"]}), DUAL),
        "FieldValueInvalid spec.ipFamilyPolicy"
    );
    assert_eq!(
        selected(json!({"clusterIPs": ["10.0.0.1"]}), DUAL),
        "FieldValueInvalid spec.clusterIPs"
    );
}

#[test]
fn change_to_single_stack_drops_the_second_address() {
    let dual = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
    let mut new = dual.clone();
    new["ipFamilyPolicy"] = "SingleStack".into();
    assert_eq!(
        updated(dual.clone(), new, DUAL),
        (r#"SingleStack ["IPv4"]"#.to_owned(), json!(["10.0.0.1"]))
    );
    let mut new = dual.clone();
    new["clusterIPs"] = json!(["10.0.0.1"]);
    new["ipFamilies"] = json!(["IPv4"]);
    assert_eq!(
        updated(dual, new, DUAL).0,
        "FieldValueInvalid spec.ipFamilyPolicy, FieldValueInvalid spec.ipFamilyPolicy"
    );
}

#[test]
fn unchanged_preference_keeps_its_families() {
    let old = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"});
    assert_eq!(
        updated(old.clone(), old.clone(), DUAL).0,
        r#"PreferDualStack ["IPv4"]"#
    );
    let mut single = old.clone();
    single["ipFamilyPolicy"] = "SingleStack".into();
    assert_eq!(updated(single, old, DUAL).0, r#"PreferDualStack ["IPv4","IPv6"]"#);
}

/// VAL-62: families that the cluster lacks. VAL-63: SingleStack with two families or addresses.
#[test]
fn families_beyond_cluster_or_policy_are_rejected_with_their_field() {
    let faults = |spec: Value, configured| {
        let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
        let errors = initialize_families(&mut service, None, configured).expect_err("a rejection");
        let errors = errors
            .iter()
            .map(|error| (error.path.as_str().to_owned(), error.message.clone()));
        errors.collect::<Vec<_>>()
    };
    let of_type = |mut spec: Value| {
        spec["type"] = "ClusterIP".into();
        spec["ports"] = json!([{"port": 80}]);
        spec
    };
    for (spec, configured, field, part) in [
        (
            json!({"ipFamilies": ["IPv6"]}),
            SINGLE,
            "spec.ipFamilies[0]",
            "not configured on this cluster",
        ),
        (
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
            SINGLE,
            "spec.clusterIPs[0]",
            "IPv6 is not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]}),
            DUAL,
            "spec.ipFamilyPolicy",
            "when multiple IP families are specified",
        ),
        (
            json!({"ipFamilyPolicy": "SingleStack", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"]}),
            DUAL,
            "spec.ipFamilyPolicy",
            "when multiple cluster IPs are specified",
        ),
    ] {
        let faults = faults(of_type(spec), configured);
        assert!(
            faults
                .iter()
                .any(|(path, message)| path == field && message.contains(part)),
            "{field}: {part} is not in {faults:?}"
        );
    }
}
