use super::*;

fn address(link: u32, network: &str) -> Address {
    let network: ipnet::IpNet = network.parse().unwrap();
    Address {
        link: LinkIndex(link),
        network,
        // `RT_SCOPE_LINK` and `RT_SCOPE_UNIVERSE`.
        scope: if is_link_local(network.addr()) { 253 } else { 0 },
        is_tentative: false,
    }
}

/// Addresses of a host with two links, in 192.0.2.0/24 and in 198.51.100.0/24.
fn host(number: u8) -> Vec<Address> {
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

fn addresses_of(number: u8) -> Vec<LinkAddress> {
    super::link_addresses(&host(number), hardware)
}

#[test]
fn advertises_one_address_per_family_and_link() {
    let found: Vec<(String, u8)> = addresses_of(1)
        .iter()
        .map(|link_address| (link_address.address.to_string(), link_address.hardware[5]))
        .collect();
    let expected = [
        ("192.0.2.1", 2),
        ("2001:db8::1", 2),
        ("198.51.100.1", 3),
        ("fe80::1", 3),
    ];
    assert_eq!(found, expected.map(|(address, link)| (address.to_owned(), link)));
    assert_eq!(super::link_addresses(&host(1), |_| None), []);
    let many: Vec<Address> = (0..20)
        .map(|number| address(number, &format!("192.0.{number}.1/24")))
        .collect();
    let found = super::link_addresses(&many, |_| Some([2; 6]));
    assert_eq!(found.len(), LINK_ADDRESSES_MAX);
}

#[test]
fn finds_a_common_link_that_announces_the_address() {
    let next_hop = |to: &str, links: &[u32], own: &[Address]| {
        let is_used = |link: LinkIndex| links.contains(&link.0);
        let found = find(to.parse().unwrap(), &addresses_of(1), own, is_used);
        found.map(|next_hop| (next_hop.link.0, next_hop.gateway.to_string()))
    };
    let both = host(2);
    assert_eq!(
        next_hop("192.0.2.200", &[2, 3], &both),
        Some((2, "192.0.2.1".to_owned()))
    );
    // The address itself may lie outside of the networks of the link.
    assert_eq!(
        next_hop("203.0.113.7", &[3], &both),
        Some((3, "198.51.100.1".to_owned()))
    );
    assert_eq!(
        next_hop("2001:db8::200", &[2, 3], &both),
        Some((2, "2001:db8::1".to_owned()))
    );
    // A link-local address is unambiguous on one link only.
    assert_eq!(
        next_hop("2001:db8::200", &[3], &both),
        Some((3, "fe80::1".to_owned()))
    );
    let without_global: Vec<Address> = both
        .iter()
        .filter(|own| own.network.addr().is_ipv4() || is_link_local(own.network.addr()))
        .cloned()
        .collect();
    assert_eq!(next_hop("2001:db8::200", &[2, 3], &without_global), None);
    assert_eq!(next_hop("192.0.2.200", &[], &both), None);
    assert_eq!(next_hop("192.0.2.200", &[2, 3], &[]), None);
    // An own address is not a neighbour.
    assert_eq!(next_hop("192.0.2.200", &[2], &[address(2, "192.0.2.1/24")]), None);
}
