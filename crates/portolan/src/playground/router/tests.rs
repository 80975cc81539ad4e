//! Configuration of the router.

use testbed::Topology;

use super::configuration;

#[test]
fn router_has_a_session_with_each_node() {
    let topology = Topology::with_nodes(2).expect("so many nodes");
    let text = configuration(&topology);
    for node in &topology.nodes {
        let neighbor = format!("neighbor {} as 64512; passive;", node.member.address.ipv4);
        assert!(text.contains(&neighbor), "{neighbor} in {text}");
    }
    assert_eq!(text.matches("protocol bgp").count(), 2);
}
