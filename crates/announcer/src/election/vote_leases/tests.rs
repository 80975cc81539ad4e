use super::*;

fn process(name: &str, incarnation: u64) -> Voted {
    Voted {
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
fn a_vote_is_lent_to_one_at_a_time_and_goes_to_who_waits() {
    let (a, b, c) = (process("a", 1), process("b", 1), process("c", 1));
    let mut ballot = Ballot::default();
    assert!(!ballot.ask(at(0), &a, address()), "who is not heard gets nothing");
    for by in [&a, &b, &c] {
        ballot.heard(by, at(700));
    }
    assert!(ballot.ask(at(0), &a, address()));
    assert!(ballot.ask(at(1), &a, address()), "asking again changes nothing");
    assert!(!ballot.ask(at(2), &b, address()));
    assert!(!ballot.ask(at(3), &c, address()), "b was first");
    assert_eq!(
        ballot.release(at(4), &b, address()),
        None,
        "b has nothing to give back"
    );
    assert!(!ballot.ask(at(5), &b, address()));
    assert_eq!(ballot.release(at(6), &a, address()), Some(b.clone()));
    assert_eq!(ballot.vote(address()), Some(&b));
}

#[test]
fn what_is_lent_to_the_silent_comes_back() {
    let (old, new) = (process("a", 1), process("a", 2));
    let mut ballot = Ballot::default();
    ballot.heard(&old, at(700));
    let generation = ballot.generation(&old).unwrap();
    assert!(ballot.ask(at(0), &old, address()));
    ballot.heard(&new, at(1_400));
    assert!(
        !ballot.ask(at(690), &new, address()),
        "a restarted process is another"
    );
    assert_eq!(ballot.next_expiry(), Some(at(700)));
    assert_eq!(ballot.expire(at(699)), Expired::default());
    let expired = ballot.expire(at(700));
    assert_eq!(expired.lent, [(new.clone(), address())]);
    assert_eq!(ballot.generation(&old), None);
    ballot.heard(&old, at(1_500));
    assert_ne!(ballot.generation(&old), Some(generation), "another lease");
    assert!(!ballot.ask(at(800), &old, address()));
}

#[test]
fn who_asked_long_ago_waits_no_more() {
    let (a, b) = (process("a", 1), process("b", 1));
    let mut ballot = Ballot::default();
    ballot.heard(&a, at(700));
    ballot.heard(&b, at(2_000));
    assert!(ballot.ask(at(0), &a, address()));
    assert!(!ballot.ask(at(0), &b, address()));
    let expired = ballot.expire(at(700));
    assert_eq!(
        expired,
        Expired {
            freed: vec![(a, address())],
            lent: Vec::new()
        }
    );
    assert_eq!(ballot.vote(address()), None);
}
