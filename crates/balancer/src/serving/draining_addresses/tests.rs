use super::*;

fn addresses(numbers: &[u8]) -> Addresses {
    numbers
        .iter()
        .map(|number| IpAddr::from([192, 0, 2, *number]))
        .collect()
}

#[test]
fn moved_addresses_drain_until_their_connections_end() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut draining = DrainingAddresses::default();
    let mut update = |seconds: u64, owned: &[u8], busy: &[u8]| {
        draining.update(at(seconds), &addresses(owned), || addresses(busy));
        let has_check = draining.next_check().is_some();
        let addresses: Addresses = draining.iter().collect();
        assert_eq!(has_check, !addresses.is_empty());
        addresses
    };
    assert_eq!(update(0, &[1, 2, 3], &[1, 2, 3]), addresses(&[]));
    assert_eq!(update(1, &[3], &[]), addresses(&[1, 2]));
    assert_eq!(update(7, &[3], &[]), addresses(&[1, 2]), "minimum drain time");
    assert_eq!(update(30, &[3], &[1, 3]), addresses(&[1]));
    // Between two checks nothing changes.
    assert_eq!(update(31, &[3], &[]), addresses(&[1]));
    // The address returns and moves again.
    assert_eq!(update(32, &[1, 3], &[]), addresses(&[]));
    assert_eq!(update(40, &[3], &[]), addresses(&[1]));
    assert_eq!(update(100, &[3], &[1]), addresses(&[1]));
    assert_eq!(
        update(40 + FORWARDING_DURATION_MAX.as_secs(), &[3], &[1]),
        addresses(&[]),
        "maximum forwarding time"
    );
}
