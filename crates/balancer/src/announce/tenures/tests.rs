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

/// Some node gave the address up.
fn gave_up(known: &mut Tenures) -> Option<Forgotten> {
    known.gave_up(NOW, ADDRESS, &process("b"), false)
}

/// What a node knows that answered for the address until `NOW`.
fn ended(on_purpose: bool) -> Tenures {
    let mut known = Tenures::default();
    assert_eq!(known.begin(NOW - WHILE, ADDRESS), None, "nobody had it before");
    known.end(NOW, ADDRESS, on_purpose);
    known
}

#[test]
fn connections_that_are_over_are_forgotten_when_an_address_comes_back() {
    let mut known = ended(true);
    assert_eq!(
        known.begin(LATER, ADDRESS),
        Some(Forgotten::Ended),
        "who had it may have died"
    );
    known.end(LATER, ADDRESS, true);
    assert_eq!(gave_up(&mut known), None);
    assert_eq!(gave_up(&mut known), None, "it is said again");
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
    assert_eq!(gave_up(&mut known), None, "and again");
    // Also by a process that knows of nothing before.
    let mut known = Tenures::default();
    gave_up(&mut known);
    assert_eq!(known.begin(NOW, ADDRESS), Some(Forgotten::Ended));
}

#[test]
fn what_is_heard_late_ends_nothing_that_goes_on() {
    for on_purpose in [true, false] {
        let mut known = ended(on_purpose);
        assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
        assert_eq!(gave_up(&mut known), Some(Forgotten::Ended));
        assert_eq!(gave_up(&mut known), None);
    }
}

#[test]
fn connections_that_spoke_elsewhere_are_forgotten_after_a_loss() {
    let mut known = ended(false);
    assert_eq!(
        known.begin(LATER, ADDRESS),
        Some(Forgotten::Ended),
        "nobody else had it: the others go on"
    );
    let mut known = ended(false);
    gave_up(&mut known);
    assert_eq!(known.begin(LATER, ADDRESS), SPOKEN);
    // All is well from then on.
    known.end(LATER, ADDRESS, true);
    gave_up(&mut known);
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
    assert_eq!(
        known.begin(NOW, ADDRESS),
        Some(Forgotten::Ended),
        "nobody else had it"
    );
    assert_eq!(known.bequest().collect::<Vec<_>>(), [ADDRESS]);
    known.end(NOW, ADDRESS, true);
    assert_eq!(known.bequest().count(), 0);
    gave_up(&mut known);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
    let mut known = Tenures::default();
    known.inherit([ADDRESS]);
    gave_up(&mut known);
    assert_eq!(known.begin(NOW, ADDRESS), ALL);
    let mut known = Tenures::default();
    known.inherit(["192.0.2.201".parse().unwrap()]);
    gave_up(&mut known);
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
        known.lent(NOW, ADDRESS, &b);
        known.gone(NOW, ADDRESS, &b);
        known.lent(NOW, ADDRESS, next);
        assert_eq!(known.gave_up(NOW, ADDRESS, next, false), None);
        assert_eq!(known.begin(LATER, ADDRESS), expected, "{next:?}");
    }
    // Who takes over itself goes on with all that it knows.
    let mut known = ended(true);
    known.lent(NOW, ADDRESS, &b);
    known.gone(NOW, ADDRESS, &b);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
    // Nothing is cut while it answers, nor by what is of no concern to it.
    known.gone(NOW, ADDRESS, &b);
    known.lent(NOW, ADDRESS, &c);
    known.end(LATER, ADDRESS, true);
    gave_up(&mut known);
    assert_eq!(known.begin(LATER, ADDRESS), Some(Forgotten::Ended));
}

#[test]
fn an_address_that_is_nobodys_is_not_remembered() {
    let mut known = ended(false);
    gave_up(&mut known);
    known.forget_address(ADDRESS);
    assert_eq!(known.begin(LATER, ADDRESS), None);
}

#[test]
fn who_was_missed_only_goes_on_to_send_on() {
    let [b, c] = ["b", "c"].map(process);
    for is_heard_first in [true, false] {
        for (is_ending, expected) in [(false, Forgotten::Ended), (true, SPOKEN.expect("it is one"))] {
            let mut known = ended(true);
            known.lent(NOW, ADDRESS, &b);
            known.gone(NOW, ADDRESS, &b);
            let give_up = |known: &mut Tenures| {
                assert_eq!(known.gave_up(NOW, ADDRESS, &b, is_ending), None);
            };
            if is_heard_first {
                give_up(&mut known);
                known.lent(NOW, ADDRESS, &c);
            } else {
                known.lent(NOW, ADDRESS, &c);
                give_up(&mut known);
            }
            assert_eq!(
                known.begin(LATER, ADDRESS),
                Some(expected),
                "heard before the next one: {is_heard_first}, ending: {is_ending}"
            );
        }
    }
}

#[test]
fn the_way_to_this_node_is_cut_when_somebody_between_dies() {
    let [b, c] = ["b", "c"].map(process);
    let silent = Presence::Silent(SILENCE_MAX + WHILE / 2);
    let missed = Presence::Silent(SILENCE_MAX);
    for (of_b, of_c, expected) in [
        (missed, missed, Some(Forgotten::Ended)),
        (missed, Presence::Gone, Some(Forgotten::Ended)),
        (Presence::Gone, missed, SPOKEN),
        (Presence::Ending, missed, SPOKEN),
        (
            silent,
            missed,
            Some(Forgotten::SpokenWithin((SILENCE_MAX + WHILE / 2) * 2 + SLACK)),
        ),
    ] {
        let mut known = ended(true);
        known.lent(NOW, ADDRESS, &b);
        known.lent(NOW, ADDRESS, &c);
        let at = match of_b {
            Presence::Silent(_) => LATER,
            _ => NOW,
        };
        known.look(at, |voted| if *voted == b { of_b } else { of_c });
        gave_up(&mut known);
        assert_eq!(known.begin(LATER, ADDRESS), expected, "{of_b:?}, {of_c:?}");
    }
}

#[test]
fn the_way_to_this_node_is_cut_when_somebody_has_the_address_twice() {
    let [b, c] = ["b", "c"].map(process);
    let mut known = ended(true);
    for to in [&b, &b, &c] {
        known.lent(NOW, ADDRESS, to);
    }
    assert_eq!(known.bequest().count(), 0);
    known.lent(NOW, ADDRESS, &b);
    gave_up(&mut known);
    assert_eq!(known.begin(LATER, ADDRESS), SPOKEN);
    // A way that is too long is not to be remembered.
    let mut known = ended(true);
    for number in 0..=WAY_MAX {
        assert_eq!(known.bequest().count(), 0);
        known.lent(NOW, ADDRESS, &process(&number.to_string()));
    }
    assert_eq!(known.bequest().count(), 1);
}
