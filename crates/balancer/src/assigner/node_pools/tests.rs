use serde_json::{Value, json};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn node(labels: Value, is_ready: bool, addresses: &[(&str, &str)]) -> NodeAddresses {
    let addresses = addresses
        .iter()
        .map(|(kind, address)| json!({"type": kind, "address": address}));
    let status = if is_ready { "True" } else { "False" };
    let node = json!({
        "metadata": {"name": "n", "labels": labels},
        "status": {
            "addresses": addresses.collect::<Vec<_>>(),
            "conditions": [{"type": "Ready", "status": status}],
        },
    });
    NodeAddresses::of(&serde_json::from_value(node).expect("Node"))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// A compromised node can report as many addresses as fit into its Node.
#[test]
fn node_contributes_a_bounded_number_of_addresses() {
    let texts: Vec<String> = (1..=100).map(|number| format!("192.0.2.{number}")).collect();
    let of_type = |kind: &'static str| texts.iter().map(move |text| (kind, text.as_str()));
    let reported: Vec<(&str, &str)> = of_type("InternalIP").chain(of_type("ExternalIP")).collect();
    let nodes = BTreeMap::from([("a".to_owned(), node(json!({}), true, &reported))]);
    for address_type in [NodeAddressType::Internal, NodeAddressType::External] {
        assert_eq!(addresses(&nodes, address_type, |_| true).len(), 16);
    }
}

#[test]
fn addresses_match_ready_and_selected_nodes() {
    let nodes = BTreeMap::from([
        (
            "a".to_owned(),
            node(
                json!({"lb": "yes"}),
                true,
                &[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1")],
            ),
        ),
        (
            "b".to_owned(),
            node(
                json!({"lb": "yes"}),
                true,
                &[
                    ("InternalIP", "10.0.0.2"),
                    ("ExternalIP", "192.0.2.2"),
                    ("Hostname", "b"),
                ],
            ),
        ),
        (
            "c".to_owned(),
            node(json!({"lb": "yes"}), false, &[("ExternalIP", "192.0.2.3")]),
        ),
        (
            "d".to_owned(),
            node(json!({}), true, &[("InternalIP", "10.0.0.4")]),
        ),
    ]);
    let of = |address_type, label: Option<&str>| -> Vec<String> {
        let is_selected = |labels: &Labels| label.is_none_or(|label| labels.contains_key(label));
        let found = addresses(&nodes, address_type, is_selected);
        found
            .iter()
            .map(|(name, address)| format!("{name} {address}"))
            .collect()
    };
    assert_eq!(
        of(NodeAddressType::Internal, Some("lb")),
        ["a 10.0.0.1", "a fd00::1", "b 10.0.0.2"]
    );
    assert_eq!(of(NodeAddressType::External, None), ["b 192.0.2.2"]);
    assert_eq!(
        of(NodeAddressType::ExternalOrInternal, Some("lb")),
        ["b 192.0.2.2"]
    );
    let without_external = BTreeMap::from([("d".to_owned(), nodes["d"].clone())]);
    let found = addresses(&without_external, NodeAddressType::ExternalOrInternal, |_| true);
    assert_eq!(found, [("d", ip("10.0.0.4"))]);
}

#[test]
fn services_share_an_address_with_different_ports() {
    let mut ports = NodePorts::default();
    let (first, second) = ([ip("10.0.0.1")], [ip("10.0.0.1"), ip("10.0.0.2")]);
    let (tcp, udp) = ((Protocol::Tcp, 80), (Protocol::Udp, 80));
    assert_eq!(ports.claim(&key("a"), "p", &first, &[tcp]), Ok(first.to_vec()));
    assert_eq!(ports.claim(&key("b"), "p", &first, &[udp]), Ok(first.to_vec()));
    let conflict = ports.claim(&key("c"), "p", &first, &[(Protocol::Tcp, 443), tcp]);
    let message = "port 80/TCP of the nodes is used by Service default/a: choose another port, or wait";
    assert_eq!(
        conflict.map_err(|conflict| conflict.to_string()),
        Err(message.to_owned())
    );
    assert_eq!(ports.pool_of(&key("c")), None);
    assert_eq!(
        ports.claim(&key("c"), "q", &second, &[tcp]),
        Ok(vec![ip("10.0.0.2")]),
        "the other Service has no port on the second node"
    );
    assert!(ports.release(&key("a")) && !ports.release(&key("a")));
    assert_eq!(ports.claim(&key("c"), "q", &second, &[tcp]), Ok(second.to_vec()));
    assert_eq!(ports.addresses_in("p"), BTreeSet::from(first));
    assert_eq!(ports.addresses_in("q"), BTreeSet::from(second));
}

#[test]
fn endpoints_are_counted_by_node() {
    let slice = |name: &str, endpoints: Value| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": name, "labels": {SERVICE_NAME_LABEL: "web"}},
            "addressType": "IPv4", "endpoints": endpoints,
        }))
        .expect("EndpointSlice")
    };
    let endpoint = |node: &str, is_ready: bool, is_serving: bool| json!({"addresses": ["10.1.0.1"], "nodeName": node, "conditions": {"ready": is_ready, "serving": is_serving}});
    let mut nodes = EndpointNodes::default();
    let first = slice(
        "web-1",
        json!([endpoint("a", true, true), endpoint("b", false, true)]),
    );
    assert_eq!(nodes.apply_slice(&first), [key("web")]);
    assert!(
        nodes.apply_slice(&first).is_empty(),
        "an unchanged slice affects no Service"
    );
    assert_eq!(nodes.of(&key("web")), BTreeSet::from(["a"]));
    nodes.apply_slice(&slice("web-2", json!([endpoint("c", true, true)])));
    assert_eq!(nodes.of(&key("web")), BTreeSet::from(["a", "c"]));
    nodes.remove_slice(&key("web-2"));
    nodes.apply_slice(&slice("web-1", json!([endpoint("b", false, true)])));
    assert_eq!(
        nodes.of(&key("web")),
        BTreeSet::from(["b"]),
        "a terminating endpoint still serves"
    );
    assert_eq!(nodes.remove_slice(&key("web-1")), [key("web")]);
    assert!(nodes.of(&key("web")).is_empty());
}
