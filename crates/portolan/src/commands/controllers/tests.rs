use super::*;

#[test]
fn node_certificates_may_not_name_the_api_servers_or_the_zone() {
    let flags = SigningFlags {
        cluster_signing_cert_file: None,
        cluster_signing_key_file: None,
        cluster_signing_kubelet_serving_cert_file: None,
        cluster_signing_kubelet_serving_key_file: None,
        api_server_names: vec!["api.example.com".to_owned(), "192.0.2.4".to_owned()],
        cluster_domain: "cluster.example".to_owned(),
        cluster_signing_duration: Duration::from_secs(60),
    };
    let reserved = flags.reserved(["https://first.example.com:6443", "https://[2001:db8::1]:6443"]);
    for name in ["api.example.com", "first.example.com", "n1.cluster.example"] {
        assert!(reserved.name_denial(name).is_some(), "{name}");
    }
    assert!(reserved.name_denial("n1.example.com").is_none());
    for address in ["192.0.2.4", "2001:db8::1"] {
        let address = address.parse().expect("an address");
        assert!(reserved.has_address(address), "{address}");
    }
}
