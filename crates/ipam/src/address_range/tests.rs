use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn range(cidr: &str) -> AddressRange {
    AddressRange::new(cidr.parse().expect("a CIDR")).expect("usable")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Always the first of the band.
fn lowest(_: u64) -> u64 {
    0
}

#[test]
fn counts_usable_addresses_of_a_prefix() {
    for (cidr, size) in [
        ("10.0.0.0/24", 254),
        ("10.0.0.0/30", 2),
        ("10.0.0.0/31", 0),
        ("10.0.0.0/32", 0),
        ("fd00::/112", 65_535),
        ("fd00::/128", 0),
        ("fd00::/64", u64::MAX),
        ("0.0.0.0/0", 4_294_967_294),
    ] {
        assert_eq!(range(cidr).free(), size, "{cidr}");
    }
    assert!(AddressRange::new("fd00::/63".parse().expect("a CIDR")).is_err());
    assert_eq!(range("10.0.0.0/24").first(), Some(address("10.0.0.1")));
    assert_eq!(range("10.0.0.0/32").first(), None);
    assert_eq!(range("10.0.0.7/24").base(), address("10.0.0.0"));
}

#[test]
fn takes_only_addresses_within_the_range() {
    let mut four = range("10.96.0.0/16");
    for outside in [
        "10.96.0.0",
        "10.96.255.255",
        "10.97.0.1",
        "10.95.255.255",
        "fd00::1",
    ] {
        assert_eq!(
            four.take(address(outside)),
            Err(TakeError::OutOfRange),
            "{outside}"
        );
    }
    assert_eq!(four.take(address("10.96.255.254")), Ok(()));
    let mut six = range("fd00::/112");
    assert_eq!(six.take(address("fd00::ffff")), Ok(()));
    assert_eq!(six.take(address("fd00::ffff")), Err(TakeError::Taken));
    assert_eq!(six.take(address("fd00::1:0")), Err(TakeError::OutOfRange));
}

#[test]
fn lower_band_follows_the_formula_of_upstream() {
    for (total, band) in [
        (16, 0),
        (17, 16),
        (256, 16),
        (1024, 64),
        (4096, 256),
        (65_536, 256),
        (1 << 64, 256),
    ] {
        assert_eq!(lower_band(total), band, "{total}");
    }
    assert_eq!(
        range("10.96.0.0/16").take_next(&mut lowest),
        Some(address("10.96.1.1"))
    );
    assert_eq!(
        range("10.0.0.0/28").take_next(&mut lowest),
        Some(address("10.0.0.1"))
    );
}

#[test]
fn uses_the_upper_band_before_the_lower() {
    let mut range = range("10.0.0.0/24");
    let mut random = |n: u64| n / 2;
    let order: Vec<IpAddr> = std::iter::from_fn(|| range.take_next(&mut random)).collect();
    assert_eq!(order.len(), 254);
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 254);
    let is_lower = |address: &IpAddr| *address <= "10.0.0.16".parse::<IpAddr>().expect("an address");
    assert!(order[..238].iter().all(|address| !is_lower(address)) && order[238..].iter().all(is_lower));
    assert_eq!(range.free(), 0);
}

#[test]
fn finds_the_last_free_address_of_a_large_range() {
    let mut range = range("10.0.0.0/12");
    while range.take_next(&mut lowest).is_some() {}
    assert_eq!((range.free(), range.taken()), (0, 1_048_574));
    assert!(range.release(address("10.7.7.7")));
    assert!(!range.release(address("10.7.7.7")));
    assert_eq!(range.take_next(&mut |bound| bound - 1), Some(address("10.7.7.7")));
    assert_eq!(range.take_next(&mut lowest), None);
}

proptest! {
    /// No address is assigned twice or outside of the range, and released addresses are assigned again.
    #[test]
    fn never_assigns_a_port_twice(
        prefix in 24u8..=30,
        steps in prop::collection::vec((0u8..3, any::<u64>()), 1..300),
    ) {
        let mut range = AddressRange::new(IpNet::new(address("10.1.2.0"), prefix).expect("a CIDR")).expect("usable");
        let size = range.free();
        let mut held: Vec<IpAddr> = Vec::new();
        for (step, number) in steps {
            match step {
                0 => match range.take_next(&mut |bound| number % bound) {
                    Some(address) => {
                        prop_assert!(!held.contains(&address) && range.net().contains(&address));
                        held.push(address);
                    }
                    None => prop_assert_eq!(held.len() as u64, size),
                },
                1 => {
                    let requested = IpAddr::V4(Ipv4Addr::from_bits(0x0a01_0200 + (number % 300) as u32));
                    let expected = if !range.contains(requested) {
                        Err(TakeError::OutOfRange)
                    } else if held.contains(&requested) {
                        Err(TakeError::Taken)
                    } else {
                        held.push(requested);
                        Ok(())
                    };
                    prop_assert_eq!(range.take(requested), expected);
                }
                _ if held.is_empty() => {}
                _ => {
                    let index = (number % held.len() as u64) as usize;
                    prop_assert!(range.release(held.swap_remove(index)));
                }
            }
            prop_assert_eq!(range.taken(), held.len() as u64);
            prop_assert!(held.iter().all(|address| range.is_taken(*address)));
        }
    }
}
