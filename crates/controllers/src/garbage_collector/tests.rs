use super::*;

/// Returns a collector with the initial lists of these kinds.
fn synced_with(kinds: impl Iterator<Item = Kind>) -> GarbageCollector {
    let mut collector = GarbageCollector::default();
    let mut queue = Queue::default();
    for kind in kinds {
        let event = Event::Synced;
        collector.apply_change(Change { kind, event }, &mut queue, Instant::now());
    }
    collector
}

#[test]
fn own_kinds_are_not_awaited() {
    let all = || Kind::ALL.iter().copied();
    assert!(synced_with(all()).is_synced());
    assert!(synced_with(all().filter(|kind| *kind != Kind::AddressPool)).is_synced());
    assert!(!synced_with(all().filter(|kind| *kind != Kind::Pod)).is_synced());
    assert!(!synced_with(std::iter::empty()).is_synced());
}
