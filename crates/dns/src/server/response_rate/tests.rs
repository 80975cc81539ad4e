use super::*;

#[test]
fn limits_rate_per_network() {
    let limit = RateLimit::new(10);
    let client = |last: u8| IpAddr::from([192, 0, 2, last]);
    let whole = |now: u32| {
        (0..100)
            .filter(|at| limit.take(client(*at), now) == Decision::Send)
            .count()
    };
    assert_eq!(whole(0), 20, "two seconds' worth at once, for all of the network");
    assert_eq!(whole(500), 5);
    assert_eq!(whole(60_000), 20, "no more than that is saved up");
    let excess: Vec<_> = (0..4).map(|_| limit.take(client(0), 60_000)).collect();
    assert_eq!(
        excess
            .iter()
            .filter(|leave| **leave == Decision::Truncate)
            .count(),
        2
    );
    assert_eq!(
        limit.take(IpAddr::from([198, 51, 100, 1]), 0),
        Decision::Send,
        "another network"
    );
}

#[test]
fn table_is_created_with_the_first_response() {
    let limit = RateLimit::new(10);
    assert!(limit.buckets.get().is_none());
    assert_eq!(limit.take(IpAddr::from([192, 0, 2, 1]), 0), Decision::Send);
    assert_eq!(limit.buckets.get().map(|buckets| buckets.len()), Some(BUCKETS));
}
