use super::*;

fn addresses(numbers: &[u8]) -> Addresses {
    numbers
        .iter()
        .map(|number| IpAddr::from([192, 0, 2, *number]))
        .collect()
}

#[test]
fn what_moved_away_goes_on_while_it_has_connections_and_a_moment_in_any_case() {
    let begin = Instant::now();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    let mut lingering = Lingering::default();
    let mut follow = |seconds: u64, owned: &[u8], busy: &[u8]| {
        lingering.follow(at(seconds), &addresses(owned), || addresses(busy));
        let is_to_be_looked_at = lingering.next_look().is_some();
        let are: Addresses = lingering.are().collect();
        assert_eq!(is_to_be_looked_at, !are.is_empty());
        are
    };
    assert_eq!(follow(0, &[1, 2, 3], &[1, 2, 3]), addresses(&[]));
    assert_eq!(follow(1, &[3], &[]), addresses(&[1, 2]));
    assert_eq!(
        follow(7, &[3], &[]),
        addresses(&[1, 2]),
        "clients may not know yet"
    );
    assert_eq!(follow(30, &[3], &[1, 3]), addresses(&[1]));
    // Between two looks nothing ends.
    assert_eq!(follow(31, &[3], &[]), addresses(&[1]));
    // It comes back, and goes again.
    assert_eq!(follow(32, &[1, 3], &[]), addresses(&[]));
    assert_eq!(follow(40, &[3], &[]), addresses(&[1]));
    assert_eq!(follow(100, &[3], &[1]), addresses(&[1]));
    assert_eq!(
        follow(40 + FORWARDED_FOR_MAX.as_secs(), &[3], &[1]),
        addresses(&[]),
        "it is led no more"
    );
}
