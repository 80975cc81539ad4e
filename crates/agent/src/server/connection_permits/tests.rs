use super::*;

#[test]
fn single_address_cannot_exhaust_permits() {
    let permits = ConnectionPermits::new(3, 2);
    let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let held: Vec<_> = (0..2).map(|_| permits.acquire(one).unwrap()).collect();
    assert!(permits.acquire(one).is_none());
    let third = permits.acquire(other).unwrap();
    assert!(permits.acquire(other).is_none(), "the total limit is reached");
    drop(held);
    assert!(permits.acquire(one).is_some() && permits.acquire(other).is_some());
    drop(third);
    assert!(permits.issued.lock().unwrap().is_empty());
}
