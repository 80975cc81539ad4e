use serde_json::json;

use super::*;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec}))
        .expect("a Pod")
}

fn cluster() -> ClusterDns {
    ClusterDns {
        servers: Vec::new(),
        domain: "cluster.local".to_owned(),
    }
}

#[test]
fn names_all_addresses_of_the_pod() {
    let addresses = [
        "10.1.0.7".parse().expect("an address"),
        "fd00::7".parse().expect("an address"),
    ];
    let plain = for_pod(&pod(json!({})), &cluster(), &addresses, "");
    assert!(
        plain.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"),
        "{plain}"
    );
    assert!(plain.ends_with("10.1.0.7\tweb-0\nfd00::7\tweb-0\n"), "{plain}");
    let named = for_pod(&pod(json!({"subdomain": "web"})), &cluster(), &addresses[..1], "");
    assert!(
        named.ends_with("10.1.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\n"),
        "{named}"
    );
}

#[test]
fn aliases_follow_the_file_of_the_node_in_the_host_network() {
    let aliases = json!({
        "hostNetwork": true,
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a.example", "b"]}],
    });
    let text = for_pod(&pod(aliases), &cluster(), &[], "127.0.0.1 node\n");
    assert_eq!(
        text,
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n\
         \n# Entries added by HostAliases.\n192.0.2.1\ta.example\tb\n"
    );
}
