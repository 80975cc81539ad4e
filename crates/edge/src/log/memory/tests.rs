use std::pin::pin;
use std::task::{Context, Waker};

use super::*;

#[test]
fn lines_are_bounded() {
    let memory = Memory::default();
    assert!(memory.add(BYTES_MAX));
    assert!(!memory.add(1));
    assert!(!memory.add(usize::MAX));
    drop(memory.remove_on_drop(2));
    assert!(memory.add(2));
    assert!(!memory.add(1));
}

#[test]
fn scarcity_ends_the_wait_of_writers() {
    let mut context = Context::from_waker(Waker::noop());
    let memory = Memory::default();
    let mut scarcity = pin!(memory.scarcity());
    assert!(memory.add(SCARCE_BYTES_MIN - 1));
    assert!(!memory.is_scarce());
    assert!(scarcity.as_mut().poll(&mut context).is_pending());
    assert!(memory.add(1));
    assert!(memory.is_scarce());
    assert!(scarcity.as_mut().poll(&mut context).is_ready());
    assert!(pin!(memory.scarcity()).poll(&mut context).is_ready());
    memory.remove(1);
    assert!(pin!(memory.scarcity()).poll(&mut context).is_pending());
}
