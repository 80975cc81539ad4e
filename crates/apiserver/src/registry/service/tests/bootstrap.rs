//! Objects of the cluster's own API: the `kubernetes` Service and the default ServiceCIDR.

use api::ip::Family;
use serde_json::json;

use super::server::Server;
use crate::registry::service::*;

#[test]
fn kubernetes_service_has_the_first_address() {
    let server = Server::new(&["10.96.0.0/16", "fd00:10:96::/112"]);
    let range = "10.96.0.0/16".parse().expect("a CIDR");
    let service = kubernetes_service(range, 6443, None).expect("a usable range");
    let (service, _) = server
        .create("default", service, false)
        .expect("a created Service");
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    let service = kubernetes_service(range, 6443, Some(30_443)).expect("a usable range");
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["ports"][0]["nodePort"]),
        (&json!("NodePort"), &json!(30_443))
    );
    assert!(kubernetes_service("10.0.0.0/32".parse().expect("a CIDR"), 6443, None).is_err());
}

#[test]
fn kubernetes_endpoints_are_valid() {
    let addresses = [
        "192.0.2.1".parse().expect("an IP address"),
        "2001:db8::1".parse().expect("an IP address"),
    ];
    let mut endpoints = kubernetes_endpoints(&addresses, 6443);
    api::endpoints::default_endpoints_on_write(&mut endpoints);
    assert!(api::endpoints::validate_endpoints(&endpoints).is_empty());
    let mut slice = kubernetes_endpoint_slice(&addresses, Family::V6, 6443);
    api::endpoints::default_slice_on_write(&mut slice);
    assert!(api::endpoints::validate_slice(&slice).is_empty());
    assert_eq!(slice["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!(kubernetes_endpoints(&[], 6443)["subsets"], json!([]));
}

#[test]
fn default_service_cidr_is_valid_and_ready() {
    let ranges = [
        "10.96.0.0/16".parse().expect("a CIDR"),
        "fd00:10:96::/112".parse().expect("a CIDR"),
    ];
    let cidr = default_service_cidr(&ranges, jiff::Timestamp::UNIX_EPOCH);
    assert!(api::network::validate_service_cidr(&cidr).is_empty());
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.96.0.0/16", "fd00:10:96::/112"]));
    assert_eq!(
        cidr["status"]["conditions"][0]["lastTransitionTime"],
        "1970-01-01T00:00:00Z"
    );
}
