use super::*;

#[test]
fn connections_of_one_address_leave_places_to_others() {
    let places = Places::new(3, 2);
    let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let held: Vec<_> = (0..2).map(|_| places.take(one).unwrap()).collect();
    assert!(places.take(one).is_none());
    let third = places.take(other).unwrap();
    assert!(places.take(other).is_none(), "none is left at all");
    drop(held);
    assert!(places.take(one).is_some() && places.take(other).is_some());
    drop(third);
    assert!(places.taken.lock().unwrap().is_empty());
}
