use api::object::Service;
use serde_json::{Value, json};

use super::{RANGES, REMOVAL};
use crate::annotations::read;

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const AZURE_RANGES: &str = "service.beta.kubernetes.io/azure-allowed-ip-ranges";
const AZURE_TAGS: &str = "service.beta.kubernetes.io/azure-allowed-service-tags";
const ALLOW_RULES: &str = "service.beta.kubernetes.io/do-loadbalancer-allow-rules";
const DENY_RULES: &str = "service.beta.kubernetes.io/do-loadbalancer-deny-rules";
const SECURITY_GROUPS: &str = "service.beta.kubernetes.io/aws-load-balancer-security-groups";
const ACCESS_LIST: &str = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-acl-id";
const ACCESS_LIST_STATUS: &str = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-acl-status";

fn service(annotations: &[(&str, &str)], spec: Value) -> Service {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let metadata = json!({"name": "s", "namespace": "n", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("Service")
}

/// Reason to withhold the address in a cluster whose nodes run the edge.
fn withheld(annotations: &[(&str, &str)]) -> Option<String> {
    read(&service(annotations, json!({})))
        .restrictions
        .reason_to_withhold(true)
}

#[test]
fn withholds_the_address_when_a_restriction_is_invalid() {
    for (annotation, value) in [
        (SOURCE_RANGES, "10.0.0.0/33"),
        (SOURCE_RANGES, ","),
        (AZURE_RANGES, "office"),
        (ALLOW_RULES, "192.0.2.0/24"),
        (SECURITY_GROUPS, "sg-53fae93f"),
    ] {
        let reason = withheld(&[(annotation, value)]).unwrap_or_else(|| panic!("{annotation} is open"));
        assert!(
            reason.starts_with(&format!("annotation {annotation} has the value ")),
            "{reason}"
        );
        assert!(reason.ends_with("the address is withheld, because all clients could connect"));
    }
}

#[test]
fn withholds_the_address_when_only_the_cloud_can_apply_the_restriction() {
    for (annotation, remedy) in [
        (AZURE_TAGS, RANGES),
        ("oci.oraclecloud.com/oci-network-security-groups", RANGES),
        ("service.cloud.tencent.com/security-groups", RANGES),
        (
            "service.kubernetes.io/ibm-load-balancer-cloud-provider-vpc-security-group",
            RANGES,
        ),
        (
            "service.beta.kubernetes.io/aws-load-balancer-security-group-prefix-lists",
            RANGES,
        ),
        (DENY_RULES, REMOVAL),
        (ACCESS_LIST, REMOVAL),
        // Names that the table lacks.
        ("portolan.dev/load-balancer-source-range", RANGES),
        ("load-balancer.hetzner.cloud/denied-clients", REMOVAL),
    ] {
        let reason = withheld(&[(annotation, "x")]).unwrap_or_else(|| panic!("{annotation} is open"));
        assert!(
            reason.starts_with(&format!("annotation {annotation} restricts")),
            "{reason}"
        );
        assert!(reason.contains(remedy), "{reason}");
    }
}

#[test]
fn withholds_the_address_when_no_node_runs_the_edge() {
    let reading = read(&service(&[(SOURCE_RANGES, "192.0.2.0/24")], json!({})));
    assert_eq!(reading.restrictions.reason_to_withhold(true), None);
    let reason = reading
        .restrictions
        .reason_to_withhold(false)
        .expect("reason to withhold");
    assert!(
        reason.contains(SOURCE_RANGES) && reason.contains("--edge"),
        "{reason}"
    );
}

#[test]
fn keeps_the_address_if_all_sources_are_allowed() {
    let is_kept = |annotations: &[(&str, &str)], families: Value| {
        let spec = json!({ "ipFamilies": families });
        read(&service(annotations, spec))
            .restrictions
            .reason_to_withhold(false)
            .is_none()
    };
    assert!(is_kept(&[(SOURCE_RANGES, "0.0.0.0/0")], json!(["IPv4"])));
    assert!(is_kept(
        &[(SOURCE_RANGES, "0.0.0.0/0,::/0")],
        json!(["IPv4", "IPv6"])
    ));
    assert!(!is_kept(&[(SOURCE_RANGES, "0.0.0.0/0")], json!(["IPv4", "IPv6"])));
    assert!(is_kept(
        &[(SOURCE_RANGES, " "), (AZURE_TAGS, ""), (DENY_RULES, "")],
        json!(["IPv4"])
    ));
    assert!(is_kept(
        &[(ACCESS_LIST, "acl-1"), (ACCESS_LIST_STATUS, "off")],
        json!(["IPv4"])
    ));
    assert!(!is_kept(
        &[(ACCESS_LIST, "acl-1"), (ACCESS_LIST_STATUS, "on")],
        json!(["IPv4"])
    ));
}

#[test]
fn ranges_replace_restrictions_that_cannot_be_applied() {
    let spec = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    let annotations = [
        (AZURE_TAGS, "AzureCloud"),
        (SECURITY_GROUPS, "sg-1"),
        (SOURCE_RANGES, "x"),
    ];
    let reading = read(&service(&annotations, spec.clone()));
    assert_eq!(reading.restrictions.reason_to_withhold(false), None);
    assert_eq!(reading.errors.len(), 3, "{:?}", reading.errors);
    let reading = read(&service(
        &[(AZURE_TAGS, "AzureCloud"), (AZURE_RANGES, "192.0.2.0/24")],
        json!({}),
    ));
    assert_eq!(
        (
            reading.restrictions.reason_to_withhold(true),
            reading.errors.len()
        ),
        (None, 1)
    );
    let refused = read(&service(&[(DENY_RULES, "ip:192.0.2.7")], spec));
    assert!(
        refused.restrictions.reason_to_withhold(true).is_some(),
        "ranges do not replace deny rules"
    );
}

#[test]
fn withholds_the_address_when_the_field_is_invalid() {
    let spec = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "10/8"]});
    let reason = read(&service(&[], spec))
        .restrictions
        .reason_to_withhold(true)
        .expect("reason to withhold");
    assert!(
        reason
            .contains("spec.loadBalancerSourceRanges: expected ranges such as 192.0.2.0/24, found \"10/8\""),
        "{reason}"
    );
}

#[test]
fn reason_quotes_a_bounded_part_of_many_long_values() {
    let names: Vec<String> = (0..20)
        .map(|number| format!("portolan.dev/edge-deny-{number}"))
        .collect();
    let long = "x".repeat(10_000);
    let mut annotations: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    annotations.push((SOURCE_RANGES, &long));
    let reason = withheld(&annotations).expect("reason to withhold");
    assert!(reason.len() < 4_096 && reason.contains("; 17 more;"), "{reason}");
}
