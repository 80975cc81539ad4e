use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));
const NOW: Time = Time::from_secs(1_000);
const WHILE: Duration = Duration::from_secs(30);
const LATER: Time = NOW.saturating_add(WHILE);
const ALL: Option<ConntrackFlush> = Some(ConntrackFlush::ActiveWithin(Duration::MAX));
/// Flush at `LATER` of a chain that broke at `NOW`.
const ACTIVE: Option<ConntrackFlush> = Some(ConntrackFlush::ActiveWithin(
    WHILE.saturating_mul(2).saturating_add(ABSENCE_MARGIN),
));

fn process(name: &str) -> LeaseHolder {
    LeaseHolder {
        name: name.into(),
        incarnation: 1,
    }
}

/// Acquires the address while all other nodes live.
fn begin(history: &mut OwnershipHistory, now: Time) -> Option<ConntrackFlush> {
    history.begin(now, ADDRESS, |_| Liveness::WithoutMessage(Duration::ZERO))
}

/// Records a release by another node.
fn record_release(history: &mut OwnershipHistory) -> Option<ConntrackFlush> {
    history.record_release(NOW, ADDRESS, &process("b"), false)
}

/// History of a node that owned the address until `NOW`.
fn lost(is_planned: bool) -> OwnershipHistory {
    let mut history = OwnershipHistory::default();
    assert_eq!(begin(&mut history, NOW - WHILE), None, "no earlier owner");
    history.end(NOW, ADDRESS, is_planned);
    history
}

#[test]
fn flushes_closed_connections_when_an_address_returns() {
    let mut history = lost(true);
    assert_eq!(
        begin(&mut history, LATER),
        Some(ConntrackFlush::Closed),
        "a later owner may have failed"
    );
    history.end(LATER, ADDRESS, true);
    assert_eq!(record_release(&mut history), None);
    assert_eq!(record_release(&mut history), None, "repeated release");
    assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
    assert_eq!(
        record_release(&mut history),
        None,
        "repeated release after acquisition"
    );
    // New process without history.
    let mut history = OwnershipHistory::default();
    record_release(&mut history);
    assert_eq!(begin(&mut history, NOW), Some(ConntrackFlush::Closed));
}

#[test]
fn late_releases_flush_closed_connections_only() {
    for is_planned in [true, false] {
        let mut history = lost(is_planned);
        assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
        assert_eq!(record_release(&mut history), Some(ConntrackFlush::Closed));
        assert_eq!(record_release(&mut history), None);
    }
}

#[test]
fn flushes_active_connections_after_an_unplanned_loss() {
    let mut history = lost(false);
    assert_eq!(
        begin(&mut history, LATER),
        Some(ConntrackFlush::Closed),
        "no other owner: active connections continue"
    );
    let mut history = lost(false);
    record_release(&mut history);
    assert_eq!(begin(&mut history, LATER), ACTIVE);
    // Planned moves afterwards.
    history.end(LATER, ADDRESS, true);
    record_release(&mut history);
    assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
}

#[test]
fn flushes_all_connections_after_a_crash() {
    let mut history = OwnershipHistory::default();
    history.restore_after_crash([ADDRESS]);
    assert_eq!(
        history.persisted_addresses().collect::<Vec<_>>(),
        [ADDRESS],
        "persisted for the next crash"
    );
    assert_eq!(
        begin(&mut history, NOW),
        Some(ConntrackFlush::Closed),
        "no other owner"
    );
    assert_eq!(history.persisted_addresses().collect::<Vec<_>>(), [ADDRESS]);
    history.end(NOW, ADDRESS, true);
    assert_eq!(history.persisted_addresses().count(), 0);
    record_release(&mut history);
    assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
    let mut history = OwnershipHistory::default();
    history.restore_after_crash([ADDRESS]);
    record_release(&mut history);
    assert_eq!(begin(&mut history, NOW), ALL);
    let mut history = OwnershipHistory::default();
    history.restore_after_crash(["192.0.2.201".parse().unwrap()]);
    record_release(&mut history);
    assert_eq!(
        begin(&mut history, NOW),
        Some(ConntrackFlush::Closed),
        "another address crashed"
    );
}

#[test]
fn chain_breaks_when_a_lost_successor_is_replaced() {
    let [b, c] = ["b", "c"].map(process);
    let restarted = LeaseHolder {
        incarnation: 2,
        ..b.clone()
    };
    for (next, expected) in [
        (&b, Some(ConntrackFlush::Closed)),
        (&c, ACTIVE),
        (&restarted, ACTIVE),
    ] {
        let mut history = lost(true);
        history.vote_granted(ADDRESS, &b);
        history.successor_lost(NOW, ADDRESS, &b);
        history.vote_granted(ADDRESS, next);
        assert_eq!(history.record_release(NOW, ADDRESS, next, false), None);
        assert_eq!(begin(&mut history, LATER), expected, "{next:?}");
    }
    // This node itself succeeds: its entries are complete.
    let mut history = lost(true);
    history.vote_granted(ADDRESS, &b);
    history.successor_lost(NOW, ADDRESS, &b);
    assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
    // Losses during its own ownership do not matter.
    history.successor_lost(NOW, ADDRESS, &b);
    history.vote_granted(ADDRESS, &c);
    history.end(LATER, ADDRESS, true);
    record_release(&mut history);
    assert_eq!(begin(&mut history, LATER), Some(ConntrackFlush::Closed));
}

#[test]
fn removed_addresses_have_no_history() {
    let mut history = lost(false);
    record_release(&mut history);
    history.remove_address(ADDRESS);
    assert_eq!(begin(&mut history, LATER), None);
}

/// History of a node that released the address at `NOW`, and of these later releases, the last one to this node.
fn returned(by: &[&LeaseHolder]) -> OwnershipHistory {
    let mut history = lost(true);
    for by in by {
        history.vote_granted(ADDRESS, by);
        assert_eq!(history.record_release(NOW, ADDRESS, by, false), None);
        assert_eq!(
            history.record_release(NOW, ADDRESS, by, false),
            None,
            "repeated release"
        );
    }
    history
}

#[test]
fn forwarding_chain_ends_at_a_failed_hop() {
    let [b, c] = ["b", "c"].map(process);
    let recent = Liveness::WithoutMessage(UNANSWERED_MAX);
    let failed = Liveness::WithoutMessage(WHILE);
    let active_since = |at: Time| ConntrackFlush::ActiveWithin((LATER - at) * 2 + ABSENCE_MARGIN);
    for (of_b, of_c, expected) in [
        (recent, recent, ConntrackFlush::Closed),
        (recent, Liveness::Removed, ConntrackFlush::Closed),
        (recent, Liveness::Leaving, ConntrackFlush::Closed),
        (Liveness::Removed, recent, active_since(LATER - REPLACED_WITHIN)),
        (Liveness::Leaving, recent, active_since(LATER - UNANSWERED_MAX)),
        (failed, recent, active_since(NOW)),
    ] {
        let presence = |holder: &LeaseHolder| if *holder == b { of_b } else { of_c };
        let mut history = returned(&[&b, &c]);
        assert_eq!(
            history.begin(LATER, ADDRESS, presence),
            Some(expected),
            "{of_b:?}, {of_c:?}"
        );
        // The break persists when all nodes run again.
        let mut history = returned(&[&b, &c]);
        history.check_chains(LATER, presence);
        assert_eq!(begin(&mut history, LATER), Some(expected), "{of_b:?}, {of_c:?}");
    }
    // The last releasing node is a hop if another node owned the address afterwards.
    let mut history = returned(&[&b]);
    history.vote_granted(ADDRESS, &c);
    let is_removed = |_: &LeaseHolder| Liveness::Removed;
    let expected = active_since(LATER - REPLACED_WITHIN);
    assert_eq!(history.begin(LATER, ADDRESS, is_removed), Some(expected));
    let mut history = returned(&[&b]);
    assert_eq!(
        history.begin(LATER, ADDRESS, is_removed),
        Some(ConntrackFlush::Closed)
    );
}

#[test]
fn chain_breaks_when_a_hop_releases_twice() {
    let [b, c] = ["b", "c"].map(process);
    assert_eq!(
        begin(&mut returned(&[&b, &c]), LATER),
        Some(ConntrackFlush::Closed)
    );
    assert_eq!(begin(&mut returned(&[&b, &c, &b]), LATER), ACTIVE);
    // Chains that are too long count as broken.
    let many: Vec<LeaseHolder> = (0..=CHAIN_MAX)
        .map(|number| process(&number.to_string()))
        .collect();
    let many: Vec<&LeaseHolder> = many.iter().collect();
    assert_eq!(begin(&mut returned(&many), LATER), ACTIVE);
    assert_eq!(
        begin(&mut returned(&many[1..]), LATER),
        Some(ConntrackFlush::Closed)
    );
}

#[test]
fn chain_breaks_by_age() {
    let b = process("b");
    let away = |lasts: Duration| begin(&mut returned(&[&b]), NOW + lasts);
    assert_eq!(
        away(FORWARDING_DURATION_MAX - Duration::from_nanos(1)),
        Some(ConntrackFlush::Closed)
    );
    assert_eq!(away(FORWARDING_DURATION_MAX + WHILE), ACTIVE);
}
