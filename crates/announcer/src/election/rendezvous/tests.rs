use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::*;

fn nodes(count: usize) -> Vec<NodeName> {
    (1..=count)
        .map(|number| format!("node-{number}").into())
        .collect()
}

fn addresses() -> impl Iterator<Item = IpAddr> {
    (0..2_000u32).map(|number| IpAddr::V4(Ipv4Addr::from(0xc000_0200 + number)))
}

#[test]
fn empty_candidate_list_has_no_winner() {
    assert_eq!(winner("192.0.2.1".parse().unwrap(), [].iter()), None);
}

#[test]
fn neighbouring_addresses_are_spread_over_nodes_with_neighbouring_names() {
    let nodes = nodes(5);
    let mut counts: HashMap<&NodeName, usize> = HashMap::new();
    for address in addresses() {
        *counts.entry(winner(address, nodes.iter()).unwrap()).or_default() += 1;
    }
    for (name, count) in counts {
        assert!((300..500).contains(&count), "{name} has {count} of 2000");
    }
}

#[test]
fn leaving_node_moves_its_addresses_only() {
    let all = nodes(5);
    let left: Vec<NodeName> = all.iter().filter(|name| &***name != "node-3").cloned().collect();
    for address in addresses() {
        let before = winner(address, all.iter()).unwrap();
        let after = winner(address, left.iter()).unwrap();
        assert!(before == after || &**before == "node-3", "{address} moved");
    }
}

#[test]
fn choice_is_stable_across_versions() {
    let nodes = nodes(3);
    let chosen = |text: &str| winner(text.parse().unwrap(), nodes.iter()).unwrap().to_string();
    let seen: Vec<String> = [
        "192.0.2.1",
        "192.0.2.4",
        "192.0.2.9",
        "2001:db8::1",
        "2001:db8::2",
    ]
    .map(chosen)
    .to_vec();
    assert_eq!(seen, ["node-1", "node-3", "node-3", "node-1", "node-2"]);
}
