use super::*;

const BOUNDS: Bounds = Bounds {
    total: 10,
    without_reserve: 8,
    per_holder: 3,
    per_reserved_holder: 5,
};

#[test]
fn a_holder_has_a_part() {
    let mut portions = Portions::new(BOUNDS);
    assert_eq!(portions.take("ann", 3, Claim::Common), Ok(()));
    assert_eq!(portions.take("ann", 1, Claim::Common), Err(Exceeded::Holder));
    assert_eq!(portions.take("bob", 1, Claim::Common), Ok(()));
    portions.give_back(&"ann", 1);
    assert_eq!(portions.take("ann", 1, Claim::Common), Ok(()));
}

#[test]
fn the_reserve_is_for_those_with_a_claim() {
    let mut portions = Portions::new(BOUNDS);
    for holder in ["ann", "bob"] {
        assert_eq!(portions.take(holder, 3, Claim::Common), Ok(()));
    }
    assert_eq!(portions.take("carol", 3, Claim::Common), Err(Exceeded::Total));
    assert_eq!(portions.take("carol", 2, Claim::Common), Ok(()));
    assert_eq!(portions.take("node", 2, Claim::Reserved), Ok(()));
    assert_eq!(portions.take("node", 1, Claim::Reserved), Err(Exceeded::Total));
    assert_eq!(portions.take("admin", 90, Claim::Exempt), Ok(()));
    assert_eq!(portions.held(), 100);
}

#[test]
fn holders_of_nothing_are_forgotten() {
    let mut portions = Portions::new(BOUNDS);
    for holder in 0..1_000 {
        assert_eq!(portions.take(holder, 2, Claim::Common), Ok(()));
        portions.give_back(&holder, 2);
    }
    assert!(portions.by_holder.is_empty());
    assert_eq!(portions.held(), 0);
}
