use super::*;

fn process(name: &str, incarnation: u64) -> LeaseHolder {
    LeaseHolder {
        name: name.into(),
        incarnation,
    }
}

fn at(milliseconds: u64) -> Time {
    Duration::from_millis(milliseconds)
}

fn address() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

#[test]
fn grants_a_vote_to_one_holder_and_then_to_the_first_waiting_candidate() {
    let (a, b, c) = (process("a", 1), process("b", 1), process("c", 1));
    let mut votes = VoteLedger::default();
    assert!(!votes.request(at(0), &a, address()), "a has no lease");
    for candidate in [&a, &b, &c] {
        votes.renew(candidate, at(700));
    }
    assert!(votes.request(at(0), &a, address()));
    assert!(votes.request(at(1), &a, address()), "repeated request");
    assert!(!votes.request(at(2), &b, address()));
    assert!(!votes.request(at(3), &c, address()), "b was first");
    assert_eq!(votes.release(at(4), &b, address()), None, "b holds no vote");
    assert!(!votes.request(at(5), &b, address()));
    assert_eq!(votes.release(at(6), &a, address()), Some(b.clone()));
    assert_eq!(votes.holder(address()), Some(&b));
}

#[test]
fn revokes_votes_when_a_lease_expires() {
    let (old, new) = (process("a", 1), process("a", 2));
    let mut votes = VoteLedger::default();
    votes.renew(&old, at(700));
    let generation = votes.generation(&old).unwrap();
    assert!(votes.request(at(0), &old, address()));
    votes.renew(&new, at(1_400));
    assert!(
        !votes.request(at(690), &new, address()),
        "a restarted process is another holder"
    );
    assert_eq!(votes.next_expiry(), Some(at(700)));
    assert_eq!(votes.expire(at(699)), Expired::default());
    let expired = votes.expire(at(700));
    assert_eq!(expired.granted, [(new.clone(), address())]);
    assert_eq!(votes.generation(&old), None);
    votes.renew(&old, at(1_500));
    assert_ne!(votes.generation(&old), Some(generation), "another lease");
    assert!(!votes.request(at(800), &old, address()));
}

#[test]
fn ignores_waiting_candidates_with_stale_requests() {
    let (a, b) = (process("a", 1), process("b", 1));
    let mut votes = VoteLedger::default();
    votes.renew(&a, at(700));
    votes.renew(&b, at(2_000));
    assert!(votes.request(at(0), &a, address()));
    assert!(!votes.request(at(0), &b, address()));
    let expired = votes.expire(at(700));
    assert_eq!(
        expired,
        Expired {
            revoked: vec![(a, address())],
            granted: Vec::new()
        }
    );
    assert_eq!(votes.holder(address()), None);
}

#[test]
fn leases_of_others_end_with_the_latest() {
    let (own, a, b) = (process("own", 1), process("a", 1), process("b", 1));
    let mut votes = VoteLedger::default();
    assert_eq!(votes.granted_until(&own), Time::ZERO);
    votes.renew(&own, Time::MAX);
    assert_eq!(votes.granted_until(&own), Time::ZERO);
    votes.renew(&a, at(700));
    votes.renew(&b, at(900));
    assert_eq!(votes.granted_until(&own), at(900));
}
