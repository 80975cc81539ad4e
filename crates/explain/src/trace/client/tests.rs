use serde_json::json;

use super::*;

fn world() -> World {
    let mut builder = World::builder();
    builder.add(json!([
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart-1"}, "spec": {"nodeName": "node-a"},
         "status": {"podIP": "10.244.1.5", "podIPs": [{"ip": "10.244.1.5"}, {"ip": "fd00::5"}]}},
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "late"}},
        {"kind": "Pod", "metadata": {"namespace": "kube-system", "name": "agent"},
         "spec": {"nodeName": "node-a", "hostNetwork": true}, "status": {"podIP": "192.0.2.11"}},
        {"kind": "Node", "metadata": {"name": "node-a"}, "status": {"addresses": [
            {"type": "ExternalIP", "address": "198.51.100.11"}, {"type": "InternalIP", "address": "192.0.2.11"},
            {"type": "Hostname", "address": "node-a"}]}}]));
    builder.build()
}

fn find(text: &str) -> Result<Client, ClientError> {
    Client::find(&world(), &text.parse().expect("a client"))
}

#[test]
fn names_have_three_forms() {
    let pod = |namespace: &str, name: &str| ClientName::Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!("pod/shop/cart-1".parse(), Ok(pod("shop", "cart-1")));
    assert_eq!("pod/cart-1".parse(), Ok(pod("default", "cart-1")));
    assert_eq!("node/node-a".parse(), Ok(ClientName::Node("node-a".to_owned())));
    let address = ClientName::Address("2001:db8::1".parse().expect("an address"));
    assert_eq!("2001:db8::1".parse(), Ok(address));
    for text in [
        "",
        "cart-1",
        "pod/",
        "pod/a/",
        "pod//a",
        "pod/a/b/c",
        "node/",
        "node/a/b",
        "svc/web",
    ] {
        assert!(text.parse::<ClientName>().is_err(), "{text:?}");
    }
}

#[test]
fn address_of_a_pod_or_node_stands_for_it() {
    let of_pod = find("pod/shop/cart-1");
    assert_eq!(find("fd00::5"), of_pod);
    assert_eq!(of_pod.expect("a Pod").node, "node-a");
    // A Pod on the host network shares the address of its node.
    assert_eq!(find("192.0.2.11"), find("node/node-a"));
    assert_eq!(find("203.0.113.9").expect("a client").kind, ClientKind::Outside);
}

#[test]
fn node_connects_from_its_internal_address() {
    let node = find("node/node-a").expect("a Node");
    assert_eq!(
        node.addresses,
        ["192.0.2.11".parse::<IpAddr>().expect("an address")]
    );
}

#[test]
fn absent_client_differs_from_a_client_without_address() {
    let message = |text: &str| find(text).map_err(|error| error.to_string());
    assert_eq!(
        message("pod/shop/nope"),
        Err("the input has no pod/shop/nope".to_owned())
    );
    assert!(matches!(find("node/node-b"), Err(ClientError::Absent { .. })));
    assert!(matches!(
        find("pod/shop/late"),
        Err(ClientError::WithoutAddress { .. })
    ));
}
