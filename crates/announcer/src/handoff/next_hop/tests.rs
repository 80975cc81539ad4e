use super::*;

fn address(link: u32, network: &str) -> Address {
    let network: ipnet::IpNet = network.parse().unwrap();
    Address {
        link: LinkIndex(link),
        network,
        // `RT_SCOPE_LINK` and `RT_SCOPE_UNIVERSE`.
        scope: if is_of_link(network.addr()) { 253 } else { 0 },
        is_tentative: false,
    }
}

/// What a machine of that number has: two links, of which the network knows the first as 192.0.2.0/24 and the other one
/// as 198.51.100.0/24.
fn machine(number: u8) -> Vec<Address> {
    vec![
        address(2, &format!("fe80::{number}/64")),
        address(2, &format!("192.0.2.{number}/24")),
        address(2, &format!("192.0.2.1{number}/24")),
        address(2, "192.0.2.200/32"),
        address(2, &format!("2001:db8::{number}/64")),
        address(3, &format!("198.51.100.{number}/24")),
        address(3, &format!("fe80::{number}/64")),
    ]
}

fn hardware(link: LinkIndex) -> Option<HardwareAddress> {
    (link.0 < 4).then_some([2, 0, 0, 0, 0, link.0 as u8])
}

fn entrances(number: u8) -> Vec<Entrance> {
    own(&machine(number), hardware)
}

#[test]
fn a_node_tells_an_address_of_each_family_and_link() {
    let told: Vec<(String, u8)> = entrances(1)
        .iter()
        .map(|entrance| (entrance.address.to_string(), entrance.hardware[5]))
        .collect();
    let wanted = [
        ("192.0.2.1", 2),
        ("2001:db8::1", 2),
        ("198.51.100.1", 3),
        ("fe80::1", 3),
    ];
    assert_eq!(told, wanted.map(|(address, link)| (address.to_owned(), link)));
    assert_eq!(own(&machine(1), |_| None), []);
    let many: Vec<Address> = (0..20).map(|n| address(n, &format!("192.0.{n}.1/24"))).collect();
    assert_eq!(own(&many, |_| Some([2; 6])).len(), ENTRANCES_MAX);
}

#[test]
fn packets_go_by_a_link_that_both_have_and_the_address_is_announced_on() {
    let way = |to: &str, links: &[u32], own: &[Address]| {
        let is_used = |link: LinkIndex| links.contains(&link.0);
        let way = towards(to.parse().unwrap(), &entrances(1), own, is_used);
        way.map(|way| (way.link.0, way.gateway.to_string()))
    };
    let both = machine(2);
    assert_eq!(
        way("192.0.2.200", &[2, 3], &both),
        Some((2, "192.0.2.1".to_owned()))
    );
    // The address itself need be of no network of the link.
    assert_eq!(
        way("203.0.113.7", &[3], &both),
        Some((3, "198.51.100.1".to_owned()))
    );
    assert_eq!(
        way("2001:db8::200", &[2, 3], &both),
        Some((2, "2001:db8::1".to_owned()))
    );
    // One for the link only is clear where there is one link only.
    assert_eq!(way("2001:db8::200", &[3], &both), Some((3, "fe80::1".to_owned())));
    let without_global: Vec<Address> = both
        .iter()
        .filter(|own| own.network.addr().is_ipv4() || is_of_link(own.network.addr()))
        .cloned()
        .collect();
    assert_eq!(way("2001:db8::200", &[2, 3], &without_global), None);
    assert_eq!(way("192.0.2.200", &[], &both), None);
    assert_eq!(way("192.0.2.200", &[2, 3], &[]), None);
    // Its own address is not another node's.
    assert_eq!(way("192.0.2.200", &[2], &[address(2, "192.0.2.1/24")]), None);
}
