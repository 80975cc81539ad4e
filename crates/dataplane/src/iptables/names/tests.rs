use api::object::{ObjectKey, Protocol};
use plan::Family;

use super::*;

fn port() -> PortKey {
    PortKey {
        service: ObjectKey::new("ns1", "svc1"),
        port: "p80".into(),
        protocol: Protocol::Tcp,
        family: Family::V4,
    }
}

/// Expected names come from `sha256sum` and `base32`.
#[test]
fn chain_names_contain_hash_of_service_port_and_endpoint() {
    let backend = Backend {
        address: "10.180.0.1:80".parse().unwrap(),
        can_be_local: false,
    };
    let chain = ChainName::of_port(Kind::Cluster, &port());
    assert_eq!(chain.to_string(), "KUBE-SVC-XPGD46QRK7WJZT7O");
    let endpoint = ChainName::of_endpoint(&port(), &backend);
    assert_eq!(endpoint.to_string(), "KUBE-SEP-SXIVWICOYRO3J4NJ");
}

#[test]
fn parses_own_chain_names_only() {
    let chain = ChainName::of_port(Kind::Firewall, &port());
    assert_eq!(ChainName::parse(&chain.to_string()), Some(chain));
    for other in [
        "KUBE-SERVICES",
        "KUBE-SEP-SHORT",
        "KUBE-FWXPGD46QRK7WJZT7O",
        "cali-PREROUTING",
    ] {
        assert_eq!(ChainName::parse(other), None, "{other}");
    }
}
