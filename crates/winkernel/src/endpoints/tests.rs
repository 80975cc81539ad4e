use super::*;
use crate::schema::ENDPOINT_REMOTE;
use crate::tests::test_plans::{LOCAL_POD, NETWORK_ID, REMOTE_POD, pod_endpoint};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn both_addresses_of_an_endpoint_are_found() {
    let endpoints = [pod_endpoint(1, &[LOCAL_POD, "fd00:244:1::7"])];
    let index = EndpointIndex::new(&endpoints, &NETWORK_ID.into());
    assert_eq!(index.at(ip(LOCAL_POD)), Some(&endpoints[0]));
    assert_eq!(index.at(ip("fd00:244:1::7")), Some(&endpoints[0]));
    assert_eq!(index.at(ip(REMOTE_POD)), None);
}

#[test]
fn endpoints_of_other_networks_are_found_by_name_only() {
    let mut endpoints = [pod_endpoint(1, &[LOCAL_POD])];
    endpoints[0].host_compute_network = "A0000000-0000-0000-0000-000000000002".into();
    let index = EndpointIndex::new(&endpoints, &NETWORK_ID.into());
    assert_eq!(index.at(ip(LOCAL_POD)), None);
    assert_eq!(index.named("pod-1"), Some(&endpoints[0]));
}

#[test]
fn local_endpoint_precedes_remote_one_with_its_address() {
    let mut endpoints = [1, 2, 3].map(|number| pod_endpoint(number, &[LOCAL_POD]));
    endpoints[0].flags = ENDPOINT_REMOTE;
    for _ in 0..endpoints.len() {
        let index = EndpointIndex::new(&endpoints, &NETWORK_ID.into());
        assert_eq!(
            index.at(ip(LOCAL_POD)).map(|found| found.name.as_str()),
            Some("pod-2")
        );
        endpoints.rotate_left(1);
    }
}

#[test]
fn remote_endpoints_with_mac_addresses_of_a_proxy_are_its_own() {
    let host = MacAddress([0, 0x15, 0x5d, 0, 0, 1]);
    let mut endpoint = pod_endpoint(1, &[REMOTE_POD]);
    endpoint.mac_address = "02-11-0A-F4-02-07".to_owned();
    assert!(
        !is_of_proxy(&endpoint, Some(host)),
        "endpoints of this node belong to Pods"
    );
    endpoint.flags = ENDPOINT_REMOTE;
    assert!(is_of_proxy(&endpoint, None));
    endpoint.mac_address = host.to_string();
    assert!(is_of_proxy(&endpoint, Some(host)) && !is_of_proxy(&endpoint, None));
    endpoint.mac_address = "02-11-0A-F4-02-08".to_owned();
    assert!(!is_of_proxy(&endpoint, Some(host)));
    endpoint.mac_address = String::new();
    assert!(!is_of_proxy(&endpoint, Some(host)));
}
