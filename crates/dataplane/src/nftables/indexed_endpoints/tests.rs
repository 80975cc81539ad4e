use super::*;
use proptest::prelude::*;

fn backends(numbers: &[u8]) -> Vec<Backend> {
    let mut backends: Vec<Backend> = numbers
        .iter()
        .map(|&number| Backend {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)), 80),
            can_be_local: number % 2 == 0,
        })
        .collect();
    backends.sort_unstable();
    backends.dedup();
    backends
}

fn addresses(endpoints: &IndexedEndpoints) -> Vec<SocketAddr> {
    endpoints.iter().map(|backend| backend.address).collect()
}

#[test]
fn replaced_endpoint_keeps_other_indexes() {
    let former = IndexedEndpoints::assign(Family::V4, &[], &backends(&[1, 3, 5]));
    let now = IndexedEndpoints::assign(Family::V4, &addresses(&former), &backends(&[1, 4, 5]));
    let last: Vec<u8> = now
        .iter()
        .map(|backend| match backend.address.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(_) => 0,
        })
        .collect();
    assert_eq!(last, [1, 4, 5]);
}

#[test]
fn ipv6_endpoints_keep_their_address() {
    let backend = Backend {
        address: "[fd00::1]:8080".parse().unwrap(),
        can_be_local: true,
    };
    let endpoints = IndexedEndpoints::assign(Family::V6, &[], &[backend]);
    assert_eq!(endpoints.iter().collect::<Vec<_>>(), [backend]);
}

proptest! {
    #[test]
    fn assigns_all_endpoints_with_few_moves(
        before in proptest::collection::vec(any::<u8>(), 0..20),
        after in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let (before, after) = (backends(&before), backends(&after));
        let former = IndexedEndpoints::assign(Family::V4, &[], &before);
        let now = IndexedEndpoints::assign(Family::V4, &addresses(&former), &after);

        let mut sorted: Vec<Backend> = now.iter().collect();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &after);

        let new = after.iter().filter(|backend| !before.contains(backend)).count();
        let shrunk = before.len().saturating_sub(after.len());
        let changed = now.iter().enumerate().filter(|(index, backend)| former.iter().nth(*index) != Some(*backend)).count();
        prop_assert!(changed <= new + shrunk, "{} changed, {} new, {} fewer", changed, new, shrunk);
    }
}
