use serde_json::json;

use super::*;
use crate::tests::test_plans::{NODE_IP, features, network, settings};

fn hns(kind: &str) -> HnsNetwork {
    HnsNetwork::read(&network(kind))
}

#[test]
fn section_has_the_fields_of_upstream() {
    let section = json!({
        "networkName": "pods", "sourceVip": "10.244.1.2", "enableDSR": true, "rootHnsEndpointName": "host_ep",
        "forwardHealthCheckVip": true,
    });
    let expected = Settings {
        network_name: "pods".to_owned(),
        source_vip: Some("10.244.1.2".parse().unwrap()),
        enable_dsr: true,
        root_endpoint_name: "host_ep".to_owned(),
        forward_health_check_vip: true,
        ..Settings::default()
    };
    assert_eq!(Settings::read(&section, Some("other")).unwrap(), expected);
}

#[test]
fn environment_names_the_network_if_the_section_does_not() {
    for section in [Value::Null, json!({}), json!({"networkName": ""})] {
        let read = Settings::read(&section, Some("pods")).unwrap();
        assert_eq!(
            (read.network_name.as_str(), read.root_endpoint_name.as_str()),
            ("pods", "cbr0")
        );
        assert!(matches!(
            Settings::read(&section, None),
            Err(SettingsError::NoNetworkName)
        ));
    }
}

#[test]
fn rejects_invalid_fields() {
    let address = Settings::read(&json!({"networkName": "pods", "sourceVip": "10.0.0"}), None);
    assert_eq!(
        address.unwrap_err().to_string(),
        "winkernel.sourceVip: expected an IP address, found \"10.0.0\""
    );
    let kind = Settings::read(&json!({"networkName": "pods", "enableDSR": "yes"}), None);
    assert!(matches!(kind, Err(SettingsError::Section { .. })));
}

#[test]
fn overlay_networks_need_source_vip_and_host_mac() {
    let complete = settings();
    assert!(complete.check(&hns("Overlay"), features()).is_ok());
    let mut lacking = settings();
    lacking.host_mac = None;
    let error = lacking.check(&hns("overlay"), features()).unwrap_err();
    assert!(error.to_string().contains(NODE_IP), "{error}");
    lacking.source_vip = None;
    let error = lacking.check(&hns("overlay"), features()).unwrap_err();
    assert_eq!(error.to_string(), "the overlay network \"pods\" needs sourceVip");
    assert!(lacking.check(&hns("L2Bridge"), features()).is_ok());
}

#[test]
fn missing_abilities_and_addresses_are_named() {
    let mut settings = settings();
    settings.enable_dsr = true;
    let old = Features {
        dsr: false,
        ..features()
    };
    let bridge = hns("L2Bridge");
    assert!(matches!(
        settings.check(&bridge, old),
        Err(SettingsError::DsrNotSupported)
    ));
    let none = Features::default();
    assert!(matches!(
        settings.check(&bridge, none),
        Err(SettingsError::SchemaNotSupported)
    ));
    settings.node_ips.clear();
    assert!(matches!(
        settings.check(&bridge, features()),
        Err(SettingsError::NoNodeIp)
    ));
}

#[test]
fn second_family_needs_dual_stack_and_no_overlay() {
    let settings = settings();
    let single = Features {
        dual_stack: false,
        ..features()
    };
    assert!(settings.serves(Family::V6, &hns("L2Bridge"), features()));
    assert!(!settings.serves(Family::V6, &hns("L2Bridge"), single));
    assert!(!settings.serves(Family::V6, &hns("Overlay"), features()));
    assert!(settings.serves(Family::V4, &hns("Overlay"), single));
}
