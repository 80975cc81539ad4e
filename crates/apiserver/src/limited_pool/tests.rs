use super::*;

const BOUNDS: Bounds = Bounds {
    total: 10,
    without_reserve: 8,
    per_holder: 3,
    per_reserved_holder: 5,
};

#[test]
fn limits_each_holder() {
    let mut pool = LimitedPool::new(BOUNDS);
    assert_eq!(pool.take("ann", 3, ReserveAccess::Common), Ok(()));
    assert_eq!(
        pool.take("ann", 1, ReserveAccess::Common),
        Err(ExceededLimit::Holder)
    );
    assert_eq!(pool.take("bob", 1, ReserveAccess::Common), Ok(()));
    pool.release(&"ann", 1);
    assert_eq!(pool.take("ann", 1, ReserveAccess::Common), Ok(()));
}

#[test]
fn reserve_is_for_holders_with_access() {
    let mut pool = LimitedPool::new(BOUNDS);
    for holder in ["ann", "bob"] {
        assert_eq!(pool.take(holder, 3, ReserveAccess::Common), Ok(()));
    }
    assert_eq!(
        pool.take("carol", 3, ReserveAccess::Common),
        Err(ExceededLimit::Total)
    );
    assert_eq!(pool.take("carol", 2, ReserveAccess::Common), Ok(()));
    assert_eq!(pool.take("node", 2, ReserveAccess::Reserved), Ok(()));
    assert_eq!(
        pool.take("node", 1, ReserveAccess::Reserved),
        Err(ExceededLimit::Total)
    );
    assert_eq!(pool.take("admin", 90, ReserveAccess::Exempt), Ok(()));
    assert_eq!(pool.held(), 100);
}

#[test]
fn holders_without_permits_have_no_entry() {
    let mut pool = LimitedPool::new(BOUNDS);
    for holder in 0..1_000 {
        assert_eq!(pool.take(holder, 2, ReserveAccess::Common), Ok(()));
        pool.release(&holder, 2);
    }
    assert!(pool.by_holder.is_empty());
    assert_eq!(pool.held(), 0);
}
