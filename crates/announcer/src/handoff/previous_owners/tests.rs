use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));
const NOW: Time = Time::from_secs(1_000);

fn name(text: &str) -> NodeName {
    text.into()
}

/// Owners of an address that this node just acquired from `before`, whose vote it holds.
fn acquired_from(before: &str) -> PreviousOwners {
    let mut owners = PreviousOwners::default();
    owners.record_release(NOW, ADDRESS, &name(before), false);
    assert!(!owners.take_changed(), "only owners forward");
    owners.acquired(NOW, ADDRESS);
    owners.decide_pending(NOW, |_, _| true, |_| true);
    assert!(owners.take_changed());
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name(before)));
    owners
}

#[test]
fn forwards_to_the_previous_owner_once_loops_are_ruled_out() {
    let mut owners = PreviousOwners::default();
    // Acquired before the release arrives.
    owners.acquired(NOW, ADDRESS);
    owners.record_release(NOW, ADDRESS, &name("a"), true);
    owners.decide_pending(NOW, |_, _| false, |_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), None, "a may forward to this node");
    owners.decide_pending(NOW + Duration::from_secs(1), |_, node| **node == *"a", |_| true);
    assert_eq!(owners.forwarded().collect::<Vec<_>>(), [(ADDRESS, &name("a"))]);
    // The decision times out.
    let mut owners = PreviousOwners::default();
    owners.record_release(NOW, ADDRESS, &name("a"), true);
    owners.decide_pending(NOW + ATTRIBUTION_TIMEOUT, |_, _| false, |_| true);
    owners.decide_pending(NOW + ATTRIBUTION_TIMEOUT, |_, _| true, |_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), None);
}

#[test]
fn acquired_addresses_are_pending_until_attributed() {
    let is_pending = |owners: &PreviousOwners| owners.pending().count() == 1;
    // First the previous owner is unknown, then it may forward to this node.
    let mut owners = PreviousOwners::default();
    owners.acquired(NOW, ADDRESS);
    assert!(owners.take_changed());
    owners.decide_pending(NOW, |_, _| true, |_| false);
    assert!(is_pending(&owners));
    owners.record_release(NOW, ADDRESS, &name("a"), true);
    owners.decide_pending(NOW, |_, _| false, |_| false);
    assert!(is_pending(&owners) && !owners.take_changed());
    owners.decide_pending(NOW, |_, _| true, |_| false);
    assert!(!is_pending(&owners) && owners.take_changed());
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("a")));
    owners.record_release(NOW + ATTRIBUTION_TIMEOUT * 2, ADDRESS, &name("a"), true);
    assert!(!is_pending(&owners), "repeated release");
    // No previous owner, a failed one, or timeout.
    for (later, is_attributed) in [(Duration::ZERO, true), (ATTRIBUTION_TIMEOUT, false)] {
        let mut owners = PreviousOwners::default();
        owners.acquired(NOW, ADDRESS);
        owners.decide_pending(NOW + later, |_, _| true, |_| is_attributed);
        assert!(!is_pending(&owners));
    }
    // The address is removed or lost.
    for is_removed in [true, false] {
        let mut owners = PreviousOwners::default();
        owners.acquired(NOW, ADDRESS);
        owners.take_changed();
        if is_removed {
            owners.remove_address(ADDRESS);
        } else {
            owners.lost(ADDRESS, None);
        }
        assert!(!is_pending(&owners) && owners.take_changed());
    }
}

#[test]
fn waits_for_later_owners_after_an_old_release() {
    let mut owners = acquired_from("a");
    owners.lost(ADDRESS, Some(&name("b")));
    let back = NOW + Duration::from_secs(60);
    owners.acquired(back, ADDRESS);
    owners.decide_pending(back, |_, _| true, |_| false);
    assert_eq!(owners.pending().count(), 1, "the release of b may be outstanding");
    owners.record_release(back, ADDRESS, &name("b"), true);
    owners.decide_pending(back, |_, _| true, |_| false);
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("b")));
    assert_eq!(owners.pending().count(), 0);
}

#[test]
fn stops_forwarding_to_a_returning_owner() {
    let mut owners = acquired_from("a");
    owners.lost(ADDRESS, Some(&name("a")));
    assert!(owners.take_changed());
    assert_eq!(owners.forwarded_to(ADDRESS), None);
    // Through another owner: when a requests the vote, at the latest when it is granted.
    for is_request in [true, false] {
        let mut owners = acquired_from("a");
        owners.lost(ADDRESS, Some(&name("c")));
        assert!(!owners.take_changed());
        assert_eq!(
            owners.forwarded_to(ADDRESS),
            Some(&name("a")),
            "the chain continues"
        );
        owners.vote_granted(ADDRESS, &name("c"));
        owners.vote_requested(ADDRESS, &name("c"));
        assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("a")));
        if is_request {
            owners.vote_requested(ADDRESS, &name("a"));
        } else {
            owners.vote_granted(ADDRESS, &name("a"));
        }
        assert!(owners.take_changed());
        assert_eq!(owners.forwarded_to(ADDRESS), None);
    }
}

#[test]
fn stops_forwarding_without_a_known_new_owner() {
    let mut owners = acquired_from("a");
    owners.lost(ADDRESS, None);
    assert_eq!(owners.forwarded_to(ADDRESS), None);
    // The address returns: a is still the previous owner.
    owners.acquired(NOW, ADDRESS);
    owners.decide_pending(NOW, |_, _| true, |_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("a")));
    owners.retain_owned(|_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("a")));
    owners.retain_owned(|_| false);
    assert_eq!(owners.forwarded_to(ADDRESS), None);
}

#[test]
fn forwards_to_the_last_releasing_node_only() {
    let mut owners = acquired_from("a");
    owners.lost(ADDRESS, Some(&name("c")));
    owners.record_release(NOW, ADDRESS, &name("c"), true);
    owners.decide_pending(NOW, |_, _| true, |_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("c")));
    let mut owners = PreviousOwners::default();
    owners.record_release(NOW, ADDRESS, &name("a"), false);
    owners.vote_granted(ADDRESS, &name("a"));
    owners.acquired(NOW, ADDRESS);
    owners.decide_pending(NOW, |_, _| true, |_| true);
    assert_eq!(owners.forwarded_to(ADDRESS), None);
}

#[test]
fn stops_forwarding_to_failed_removed_and_expired_owners() {
    let after = |lasts: Duration, presence: Liveness| {
        let mut owners = acquired_from("a");
        owners.expire(NOW + lasts, |_| presence);
        owners.forwarded_to(ADDRESS).is_some()
    };
    let moment = Duration::from_secs(1);
    assert!(after(moment, Liveness::WithoutMessage(UNANSWERED_MAX)));
    assert!(!after(moment, Liveness::WithoutMessage(UNANSWERED_MAX + moment)));
    assert!(!after(moment, Liveness::Removed));
    assert!(
        after(FORWARDING_DURATION_MAX - moment, Liveness::Leaving),
        "its kernel still knows the connections"
    );
    assert!(!after(FORWARDING_DURATION_MAX, Liveness::Leaving));
    assert!(!after(
        FORWARDING_DURATION_MAX,
        Liveness::WithoutMessage(Duration::ZERO)
    ));
    let mut owners = acquired_from("a");
    owners.remove_node(&name("b"));
    assert_eq!(owners.forwarded_to(ADDRESS), Some(&name("a")));
    owners.remove_node(&name("a"));
    assert!(owners.take_changed());
    assert_eq!(owners.forwarded_to(ADDRESS), None);
    let mut owners = acquired_from("a");
    owners.remove_address(ADDRESS);
    assert!(owners.take_changed());
    assert_eq!(owners.forwarded().count(), 0);
}
