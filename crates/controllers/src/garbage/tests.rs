use super::*;

/// A collector that was told all there is of these kinds.
fn told(kinds: impl Iterator<Item = Kind>) -> Collector {
    let mut collector = Collector::default();
    let mut queue = Queue::default();
    for kind in kinds {
        let event = Event::Synced;
        collector.take(Change { kind, event }, &mut queue, Instant::now());
    }
    collector
}

#[test]
fn a_kind_that_a_foreign_cluster_need_not_have_is_not_waited_for() {
    let all = || Kind::ALL.iter().copied();
    assert!(told(all()).is_synced());
    assert!(told(all().filter(|kind| *kind != Kind::AddressPool)).is_synced());
    assert!(!told(all().filter(|kind| *kind != Kind::Pod)).is_synced());
    assert!(!told(std::iter::empty()).is_synced());
}
