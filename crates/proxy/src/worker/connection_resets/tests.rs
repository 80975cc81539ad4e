use super::*;

#[test]
fn pass_ends_no_more_connections_than_it_has_room_for() {
    let mut pass = Pass {
        room: 3,
        is_exceeded: false,
    };
    assert_eq!((pass.take(2), pass.take(1)), (2, 1));
    assert!(!pass.is_exceeded);
    assert_eq!((pass.take(0), pass.take(5)), (0, 0));
    assert!(pass.is_exceeded);
}
