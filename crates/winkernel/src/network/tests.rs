use serde_json::json;

use super::*;
use crate::schema::Policy;
use crate::tests::test_plans::network;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn remote_subnets_name_the_host_of_a_pod() {
    let network = HnsNetwork::read(&network("Overlay"));
    assert_eq!(
        network.provider_address(ip("10.244.2.7")),
        Some(ip("172.30.0.12"))
    );
    assert_eq!(
        network.provider_address(ip("172.30.0.12")),
        Some(ip("172.30.0.12"))
    );
    assert_eq!(network.provider_address(ip("192.0.2.1")), None);
}

#[test]
fn last_remote_subnet_of_an_address_counts() {
    let mut written = network("Overlay");
    written.policies.push(Policy {
        kind: "RemoteSubnetRoute".to_owned(),
        settings: json!({"DestinationPrefix": "10.244.0.0/16", "ProviderAddress": "172.30.0.13"}),
    });
    let network = HnsNetwork::read(&written);
    assert_eq!(
        network.provider_address(ip("10.244.2.7")),
        Some(ip("172.30.0.13"))
    );
}

#[test]
fn invalid_policies_and_subnets_are_ignored() {
    let mut written = network("Overlay");
    for settings in [
        json!(null),
        json!({"DestinationPrefix": "x", "ProviderAddress": "y"}),
    ] {
        let kind = "RemoteSubnetRoute".to_owned();
        written.policies.push(Policy { kind, settings });
    }
    written.ipams[0].subnets[0].ip_address_prefix = "10.244.1.0".to_owned();
    let network = HnsNetwork::read(&written);
    assert_eq!(
        network.provider_address(ip("10.244.2.7")),
        Some(ip("172.30.0.12"))
    );
    assert!(!network.may_be_local(ip("10.244.1.7")) && network.may_be_local(ip("fd00:244:1::7")));
}

#[test]
fn kinds_are_read_in_any_case() {
    let kind = |name| HnsNetwork::read(&network(name)).kind;
    assert_eq!(
        (kind("Overlay"), kind("overlay")),
        (NetworkKind::Overlay, NetworkKind::Overlay)
    );
    assert_eq!(
        (kind("L2Bridge"), kind("L2Tunnel")),
        (NetworkKind::Bridged, NetworkKind::Bridged)
    );
}

#[test]
fn all_addresses_may_be_local_in_a_network_without_subnets() {
    let mut written = network("L2Bridge");
    assert!(!HnsNetwork::read(&written).may_be_local(ip("10.244.2.7")));
    written.ipams.clear();
    assert!(HnsNetwork::read(&written).may_be_local(ip("10.244.2.7")));
}
