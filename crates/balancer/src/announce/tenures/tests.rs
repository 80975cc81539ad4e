use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));
const NOW: Time = Time::from_secs(1_000);
const WHILE: Duration = Duration::from_secs(30);
const LATER: Time = NOW.saturating_add(WHILE);
const ALL: Option<Forgotten> = Some(Forgotten::SpokenWithin(Duration::MAX));
/// What was broken at `NOW`, at `LATER`.
const SPOKEN: Option<Forgotten> = Some(Forgotten::SpokenWithin(
    WHILE.saturating_mul(2).saturating_add(SLACK),
));

fn process(name: &str) -> Voted {
    Voted {
        name: name.into(),
        incarnation: 1,
    }
}

/// What a node knows that answered for the address until `NOW`.
fn ended(on_purpose: bool) -> Tenures {
    let mut known = Tenures::default();
    assert_eq!(known.begin(NOW - WHILE, ADDRESS), None, "nobody had it before");
    known.end(NOW, ADDRESS, on_purpose);
    known
}

#[test]
fn connections_that_are_over_are_forgotten_if_somebody_else_had_the_address() {
    let mut known = ended(true);
    assert_eq!(known.begin(LATER, ADDRESS), None, "nobody else had it");
    known.end(LATER, ADDRESS, true);
    assert_eq!(known.gave_up(ADDRESS), None);
    assert_eq!(known.gave_up(ADDRESS), None, "it is said again");
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
    assert_eq!(known.gave_up(ADDRESS), None, "and again");
    // Also by a process that knows of nothing before.
    let mut known = Tenures::default();
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(NOW, ADDRESS), Some(Forgotten::Ended));
}

#[test]
fn what_is_heard_late_ends_nothing_that_goes_on() {
    for on_purpose in [true, false] {
        let mut known = ended(on_purpose);
        assert_eq!(known.begin(LATER, ADDRESS), None);
        assert_eq!(known.gave_up(ADDRESS), Some(Forgotten::Ended));
        assert_eq!(known.gave_up(ADDRESS), None);
    }
}

#[test]
fn connections_that_spoke_elsewhere_are_forgotten_after_a_loss() {
    let mut known = ended(false);
    assert_eq!(
        known.begin(LATER, ADDRESS),
        None,
        "nobody else had it: they go on"
    );
    let mut known = ended(false);
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), SPOKEN);
    // All is well from then on.
    known.end(LATER, ADDRESS, true);
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
}

#[test]
fn the_heir_of_a_killed_process_trusts_nothing_of_what_that_had() {
    let mut known = Tenures::default();
    known.inherit([ADDRESS]);
    assert_eq!(
        known.bequest().collect::<Vec<_>>(),
        [ADDRESS],
        "it may be killed, too"
    );
    assert_eq!(known.begin(NOW, ADDRESS), None, "nobody else had it");
    assert_eq!(known.bequest().collect::<Vec<_>>(), [ADDRESS]);
    known.end(NOW, ADDRESS, true);
    assert_eq!(known.bequest().count(), 0);
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
    let mut known = Tenures::default();
    known.inherit([ADDRESS]);
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(NOW, ADDRESS), ALL);
    let mut known = Tenures::default();
    known.inherit(["192.0.2.201".parse().unwrap()]);
    known.gave_up(ADDRESS);
    assert_eq!(
        known.begin(NOW, ADDRESS),
        Some(Forgotten::Ended),
        "it had another one"
    );
}

#[test]
fn the_way_to_this_node_is_cut_when_who_had_the_address_next_is_followed_by_another() {
    let [b, c] = ["b", "c"].map(process);
    let restarted = Voted {
        incarnation: 2,
        ..b.clone()
    };
    for (next, expected) in [(&b, Some(Forgotten::Ended)), (&c, SPOKEN), (&restarted, SPOKEN)] {
        let mut known = ended(true);
        known.lent(ADDRESS, &b);
        known.gone(NOW, ADDRESS, &b);
        known.lent(ADDRESS, next);
        known.gave_up(ADDRESS);
        assert_eq!(known.begin(LATER, ADDRESS), expected, "{next:?}");
    }
    // Who takes over itself goes on with all that it knows.
    let mut known = ended(true);
    known.lent(ADDRESS, &b);
    known.gone(NOW, ADDRESS, &b);
    assert_eq!(known.begin(LATER, ADDRESS), None);
    // Nothing is cut while it answers, nor by what is of no concern to it.
    known.gone(NOW, ADDRESS, &b);
    known.lent(ADDRESS, &c);
    known.end(LATER, ADDRESS, true);
    known.gave_up(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
}

#[test]
fn an_address_that_is_nobodys_is_not_remembered() {
    let mut known = ended(false);
    known.gave_up(ADDRESS);
    known.forget_address(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), None);
}
