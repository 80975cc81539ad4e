use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn causes(errors: &FieldErrors) -> Vec<[String; 2]> {
    let mut causes: Vec<[String; 2]> = errors
        .iter()
        .map(|error| [error.reason.as_str().to_owned(), error.path.as_str().to_owned()])
        .collect();
    causes.sort();
    causes
}

/// Recorded creations: the same causes, and the same object if it is accepted.
#[test]
fn creations_match_the_recorded_responses() {
    let file: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "../../conformance/api/endpoints-write.json",
    ]
    .iter()
    .collect();
    let cases: Value = serde_json::from_slice(&fs::read(file).expect("the recorded cases")).expect("JSON");
    let mut replayed = 0;
    for case in cases["cases"].as_array().expect("a list") {
        let step = &case["steps"][0];
        let is_slice = match step["body"]["kind"].as_str() {
            Some("Endpoints") => false,
            Some("EndpointSlice") => true,
            _ => continue,
        };
        let mut object = step["body"].clone();
        object["metadata"]["namespace"] = "ns".into();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = "s-generated".into();
        }
        let errors = if is_slice {
            default_slice_on_write(&mut object);
            prepare_slice_create(&mut object);
            validate_slice(&object)
        } else {
            default_endpoints_on_write(&mut object);
            validate_endpoints(&object)
        };
        let expected = &step["expect"];
        let mut expected_causes: Vec<[String; 2]> =
            serde_json::from_value(expected["Status"]["causes"].clone()).unwrap_or_default();
        expected_causes.sort();
        assert_eq!(causes(&errors), expected_causes, "{}", case["id"]);
        if errors.is_empty() && expected["body"].is_object() {
            for field in ["subsets", "addressType", "endpoints", "ports"] {
                assert_eq!(
                    object.get(field),
                    expected["body"].get(field),
                    "{} {field}",
                    case["id"]
                );
            }
        }
        replayed += 1;
    }
    assert!(replayed >= 50, "only {replayed} cases were replayed");
}

#[test]
fn update_does_not_check_unchanged_subsets() {
    let old = json!({"metadata": {"name": "s", "namespace": "n"}, "subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]});
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(validate_endpoints_update(&new, &old).is_empty());
    new["subsets"][0]["ports"] = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(validate_endpoints_update(&new, &old).len(), 1);
}

/// EPV-02.
#[test]
fn trigger_annotation_may_be_any_text() {
    let of = |time: &str| {
        let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": time});
        validate_endpoints(&json!({"metadata": {"name": "s", "namespace": "n", "annotations": annotations}}))
            .len()
    };
    assert_eq!(of("2026-01-02T03:04:05Z"), 0);
    assert_eq!(of("yesterday"), 0);
}

/// As upstream, whose stored form does not distinguish empty and absent lists.
#[test]
fn empty_lists_of_slices_become_null() {
    for lists in [
        json!({"endpoints": [], "ports": []}),
        json!({"endpoints": null}),
        json!({}),
    ] {
        let mut slice = lists;
        default_slice_on_write(&mut slice);
        assert_eq!(
            (&slice["endpoints"], &slice["ports"]),
            (&Value::Null, &Value::Null)
        );
    }
    let mut slice = json!({"endpoints": [{"addresses": ["a"], "hints": {"forZones": [{}], "forNodes": []}}]});
    default_slice_on_write(&mut slice);
    assert_eq!(
        slice["endpoints"][0]["hints"],
        json!({"forZones": [{"name": ""}]})
    );
}

/// EPV-10.
#[test]
fn new_addresses_of_slices_are_canonical() {
    let slice = |kind: &str, addresses: Value| {
        json!({"metadata": {"name": "s", "namespace": "n"}, "addressType": kind,
            "endpoints": [{"addresses": addresses, "conditions": {}}]})
    };
    let of = |slice: &Value| causes(&validate_slice(slice));
    assert!(of(&slice("IPv6", json!(["2001:db8::1"]))).is_empty());
    for address in ["2001:DB8::1", "2001:db8:0::1", "::192.0.2.1"] {
        let invalid = [["FieldValueInvalid", "endpoints[0].addresses[0]"]];
        assert_eq!(of(&slice("IPv6", json!([address]))), invalid, "{address}");
    }
    assert_eq!(
        of(&slice("FQDN", json!([""]))),
        [["FieldValueRequired", "endpoints[0].addresses[0]"]]
    );
    // Addresses from before a change of the type are not checked again.
    let (old, new) = (
        slice("IPv4", json!(["10.0.0.1"])),
        slice("IPv6", json!(["10.0.0.1"])),
    );
    assert_eq!(
        causes(&validate_slice_update(&new, &old)),
        [["FieldValueInvalid", "addressType"]]
    );
}

#[test]
fn generation_counts_changes() {
    let mut slice = json!({"metadata": {"name": "s", "labels": {"a": "b"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}]});
    default_slice_on_write(&mut slice);
    prepare_slice_create(&mut slice);
    let generation = |change: &dyn Fn(&mut Value)| {
        let mut new = slice.clone();
        change(&mut new);
        prepare_slice_update(&mut new, &slice);
        new["metadata"]["generation"].clone()
    };
    assert_eq!(generation(&|_| ()), 1);
    assert_eq!(
        generation(&|new| new["metadata"]["annotations"] = json!({"x": "y"})),
        1
    );
    assert_eq!(
        generation(&|new| new["metadata"]["labels"] = json!({"x": "y"})),
        2
    );
    assert_eq!(generation(&|new| new["endpoints"] = json!([])), 2);
}

#[test]
fn topology_moves_to_the_node_name_only_if_it_was_stored() {
    let with_topology = |node: &str| {
        json!({"metadata": {}, "endpoints": [{"addresses": ["10.0.0.1"],
            "deprecatedTopology": {"kubernetes.io/hostname": node}}]})
    };
    let old = with_topology("n1");
    let mut new = with_topology("n1");
    new["endpoints"][0]["zone"] = "z".into();
    prepare_slice_update(&mut new, &old);
    assert_eq!(new["endpoints"][0]["nodeName"], "n1");
    assert_eq!(new["endpoints"][0].get("deprecatedTopology"), None);
    let mut new = with_topology("n2");
    prepare_slice_update(&mut new, &old);
    assert_eq!(new["endpoints"][0].get("nodeName"), None);
}

/// As upstream (`pkg/registry/discovery/endpointslice/strategy.go`): the generation is set before the field is dropped.
#[test]
fn dropped_topology_increments_the_generation() {
    let old = json!({"metadata": {"generation": 1}, "endpoints": [{"addresses": ["10.0.0.1"]}]});
    let mut new = old.clone();
    new["endpoints"][0]["deprecatedTopology"] = json!({"a": "b"});
    prepare_slice_update(&mut new, &old);
    assert_eq!(new["metadata"]["generation"], 2);
    assert_eq!(new["endpoints"], old["endpoints"]);
}

#[test]
fn address_type_is_immutable() {
    let slice = |kind: &str, address: &str| {
        let mut slice = json!({"metadata": {"name": "s", "namespace": "n"}, "addressType": kind,
            "endpoints": [{"addresses": [address]}], "ports": []});
        default_slice_on_write(&mut slice);
        slice
    };
    for (new, old) in [
        (slice("IPv6", "2001:db8::1"), slice("IPv4", "10.0.0.1")),
        (slice("FQDN", "2001:db8::1"), slice("IPv6", "2001:db8::1")),
    ] {
        let errors = validate_slice_update(&new, &old);
        assert_eq!(
            causes(&errors),
            [["FieldValueInvalid".to_owned(), "addressType".to_owned()]]
        );
    }
}

#[test]
fn warns_of_noncanonical_addresses() {
    let mut slice = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["2001:DB8::1"]}]});
    assert_eq!(slice_warnings(&slice).len(), 1);
    slice["metadata"] =
        json!({"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}});
    assert!(slice_warnings(&slice).is_empty());
    let names = json!({"addressType": "FQDN"});
    assert_eq!(slice_creation_warnings(&names).len(), 1);
    assert!(slice_warnings(&names).is_empty() && slice_creation_warnings(&slice).is_empty());
    let endpoints = json!({"subsets": [{"notReadyAddresses": [{"ip": "2001:DB8::1"}]}]});
    assert_eq!(endpoints_warnings(&endpoints).len(), 1);
}

#[test]
fn references_have_no_empty_fields() {
    let target = json!({"kind": "", "name": "p", "namespace": "", "uid": null, "fieldPath": ""});
    let mut endpoints = json!({"subsets": [{"addresses": [{"ip": "192.0.2.1", "targetRef": target}]}]});
    default_endpoints_on_write(&mut endpoints);
    assert_eq!(
        endpoints["subsets"][0]["addresses"][0]["targetRef"],
        json!({"name": "p"})
    );
    let mut slice = json!({"endpoints": [{"addresses": ["192.0.2.1"], "targetRef": target}]});
    default_slice_on_write(&mut slice);
    assert_eq!(slice["endpoints"][0]["targetRef"], json!({"name": "p"}));
}
