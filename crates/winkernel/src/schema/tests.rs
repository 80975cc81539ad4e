use serde_json::json;

use super::*;

#[test]
fn load_balancers_have_the_json_of_upstream() {
    let balancer = LoadBalancer {
        endpoints: vec!["{b0000000-0000-0000-0000-00000000000a}".into()],
        source_vip: "10.244.1.2".to_owned(),
        frontend_vips: vec!["10.96.0.10".to_owned()],
        port_mappings: vec![PortMapping {
            protocol: 6,
            internal_port: 8080,
            external_port: 80,
            distribution_type: DISTRIBUTION_SOURCE_IP,
            flags: MAPPING_VIP_EXTERNAL_IP,
        }],
        flags: BALANCER_DSR,
        ..LoadBalancer::default()
    };
    let expected = json!({
        "HostComputeEndpoints": ["B0000000-0000-0000-0000-00000000000A"],
        "SourceVIP": "10.244.1.2",
        "FrontendVIPs": ["10.96.0.10"],
        "PortMappings": [{
            "Protocol": 6, "InternalPort": 8080, "ExternalPort": 80, "DistributionType": 2, "Flags": 16,
        }],
        "SchemaVersion": {"Major": 2, "Minor": 0},
        "Flags": 1,
    });
    assert_eq!(serde_json::to_value(&balancer).unwrap(), expected);
}

#[test]
fn zero_and_empty_fields_are_left_out() {
    let version = json!({"SchemaVersion": {"Major": 2, "Minor": 0}});
    assert_eq!(serde_json::to_value(LoadBalancer::default()).unwrap(), version);
    assert_eq!(serde_json::to_value(Endpoint::default()).unwrap(), version);
    assert_eq!(serde_json::to_value(PortMapping::default()).unwrap(), json!({}));
    assert_eq!(serde_json::to_value(PropertyQuery::default()).unwrap(), version);
}

#[test]
fn remote_endpoints_have_the_json_of_upstream() {
    let endpoint = Endpoint {
        host_compute_network: "a0000000-0000-0000-0000-000000000001".into(),
        policies: vec![Policy {
            kind: POLICY_PROVIDER_ADDRESS.to_owned(),
            settings: json!({"ProviderAddress": "172.30.0.12"}),
        }],
        ip_configurations: vec![IpConfiguration {
            ip_address: "10.244.2.7".to_owned(),
            prefix_length: 0,
        }],
        mac_address: "02-11-0a-f4-02-07".to_owned(),
        flags: ENDPOINT_REMOTE,
        ..Endpoint::default()
    };
    let expected = json!({
        "HostComputeNetwork": "A0000000-0000-0000-0000-000000000001",
        "Policies": [{"Type": "ProviderAddress", "Settings": {"ProviderAddress": "172.30.0.12"}}],
        "IpConfigurations": [{"IpAddress": "10.244.2.7"}],
        "MacAddress": "02-11-0a-f4-02-07",
        "Flags": 1,
        "SchemaVersion": {"Major": 2, "Minor": 0},
    });
    assert_eq!(serde_json::to_value(&endpoint).unwrap(), expected);
    assert!(endpoint.is_remote() && !Endpoint::default().is_remote());
}

#[test]
fn responses_with_nulls_and_unknown_fields_are_read() {
    let text = r#"{"ID": "c0000000-0000-0000-0000-000000000001", "HostComputeEndpoints": null, "SourceVIP": null,
        "PortMappings": [{"Protocol": 6, "ExternalPort": 80, "Flags": null}], "Health": {"Extra": 1}}"#;
    let balancer: LoadBalancer = decode(text).unwrap();
    assert_eq!(balancer.id.as_str(), "C0000000-0000-0000-0000-000000000001");
    assert!(balancer.endpoints.is_empty() && balancer.source_vip.is_empty());
    assert_eq!(balancer.port_mappings[0].external_port, 80);
}

#[test]
fn responses_of_other_types_are_errors() {
    assert!(decode::<LoadBalancer>(r#"{"Flags": "one"}"#).is_err());
    assert!(decode::<Vec<HnsId>>("").is_err());
}

#[test]
fn identifiers_are_equal_in_any_form() {
    let plain = HnsId::from("C0000000-0000-0000-0000-00000000000F");
    assert_eq!(HnsId::from("{c0000000-0000-0000-0000-00000000000f}"), plain);
    assert_eq!(
        decode::<Vec<HnsId>>(r#"["c0000000-0000-0000-0000-00000000000f"]"#).unwrap(),
        [plain]
    );
    assert!(HnsId::default().is_empty());
}
