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

/// This node gets the address; all others live.
fn begin(known: &mut Tenures, now: Time) -> Option<Forgotten> {
    known.begin(now, ADDRESS, |_| Presence::Silent(Duration::ZERO))
}

/// Some node gave the address up.
fn gave_up(known: &mut Tenures) -> Option<Forgotten> {
    known.gave_up(NOW, ADDRESS, &process("b"), false)
}

/// What a node knows that answered for the address until `NOW`.
fn ended(on_purpose: bool) -> Tenures {
    let mut known = Tenures::default();
    assert_eq!(begin(&mut known, NOW - WHILE), None, "nobody had it before");
    known.end(NOW, ADDRESS, on_purpose);
    known
}

#[test]
fn connections_that_are_over_are_forgotten_when_an_address_comes_back() {
    let mut known = ended(true);
    assert_eq!(
        begin(&mut known, LATER),
        Some(Forgotten::Ended),
        "who had it may have died"
    );
    known.end(LATER, ADDRESS, true);
    assert_eq!(gave_up(&mut known), None);
    assert_eq!(gave_up(&mut known), None, "it is said again");
    assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
    assert_eq!(gave_up(&mut known), None, "and again");
    // Also by a process that knows of nothing before.
    let mut known = Tenures::default();
    gave_up(&mut known);
    assert_eq!(begin(&mut known, NOW), Some(Forgotten::Ended));
}

#[test]
fn what_is_heard_late_ends_nothing_that_goes_on() {
    for on_purpose in [true, false] {
        let mut known = ended(on_purpose);
        assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
        assert_eq!(gave_up(&mut known), Some(Forgotten::Ended));
        assert_eq!(gave_up(&mut known), None);
    }
}

#[test]
fn connections_that_spoke_elsewhere_are_forgotten_after_a_loss() {
    let mut known = ended(false);
    assert_eq!(
        begin(&mut known, LATER),
        Some(Forgotten::Ended),
        "nobody else had it: the others go on"
    );
    let mut known = ended(false);
    gave_up(&mut known);
    assert_eq!(begin(&mut known, LATER), SPOKEN);
    // All is well from then on.
    known.end(LATER, ADDRESS, true);
    gave_up(&mut known);
    assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
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
        begin(&mut known, NOW),
        Some(Forgotten::Ended),
        "nobody else had it"
    );
    assert_eq!(known.bequest().collect::<Vec<_>>(), [ADDRESS]);
    known.end(NOW, ADDRESS, true);
    assert_eq!(known.bequest().count(), 0);
    gave_up(&mut known);
    assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
    let mut known = Tenures::default();
    known.inherit([ADDRESS]);
    gave_up(&mut known);
    assert_eq!(begin(&mut known, NOW), ALL);
    let mut known = Tenures::default();
    known.inherit(["192.0.2.201".parse().unwrap()]);
    gave_up(&mut known);
    assert_eq!(
        begin(&mut known, NOW),
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
        assert_eq!(known.gave_up(NOW, ADDRESS, next, false), None);
        assert_eq!(begin(&mut known, LATER), expected, "{next:?}");
    }
    // Who takes over itself goes on with all that it knows.
    let mut known = ended(true);
    known.lent(ADDRESS, &b);
    known.gone(NOW, ADDRESS, &b);
    assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
    // Nothing is cut while it answers, nor by what is of no concern to it.
    known.gone(NOW, ADDRESS, &b);
    known.lent(ADDRESS, &c);
    known.end(LATER, ADDRESS, true);
    gave_up(&mut known);
    assert_eq!(begin(&mut known, LATER), Some(Forgotten::Ended));
}

#[test]
fn an_address_that_is_nobodys_is_not_remembered() {
    let mut known = ended(false);
    gave_up(&mut known);
    known.forget_address(ADDRESS);
    assert_eq!(begin(&mut known, LATER), None);
}

/// What a node knows that gave the address up at `NOW` when these gave it up since, one after the other, the last one to this
/// node.
fn returned(by: &[&Voted]) -> Tenures {
    let mut known = ended(true);
    for by in by {
        known.lent(ADDRESS, by);
        assert_eq!(known.gave_up(NOW, ADDRESS, by, false), None);
        assert_eq!(known.gave_up(NOW, ADDRESS, by, false), None, "it is said again");
    }
    known
}

#[test]
fn the_way_to_this_node_is_cut_when_somebody_between_dies() {
    let [b, c] = ["b", "c"].map(process);
    let missed = Presence::Silent(SILENCE_MAX);
    let silent = Presence::Silent(WHILE);
    let spoken_since = |at: Time| Forgotten::SpokenWithin((LATER - at) * 2 + SLACK);
    for (of_b, of_c, expected) in [
        (missed, missed, Forgotten::Ended),
        (missed, Presence::Gone, Forgotten::Ended),
        (missed, Presence::Ending, Forgotten::Ended),
        (Presence::Gone, missed, spoken_since(LATER - REPLACED_WITHIN)),
        (Presence::Ending, missed, spoken_since(LATER - SILENCE_MAX)),
        (silent, missed, spoken_since(NOW)),
    ] {
        let presence = |voted: &Voted| if *voted == b { of_b } else { of_c };
        let mut known = returned(&[&b, &c]);
        assert_eq!(
            known.begin(LATER, ADDRESS, presence),
            Some(expected),
            "{of_b:?}, {of_c:?}"
        );
        // It stays known when all live again.
        let mut known = returned(&[&b, &c]);
        known.look(LATER, presence);
        assert_eq!(begin(&mut known, LATER), Some(expected), "{of_b:?}, {of_c:?}");
    }
    // The last one who gave it up is between if another one had it after.
    let mut known = returned(&[&b]);
    known.lent(ADDRESS, &c);
    let is_gone = |_: &Voted| Presence::Gone;
    let expected = spoken_since(LATER - REPLACED_WITHIN);
    assert_eq!(known.begin(LATER, ADDRESS, is_gone), Some(expected));
    let mut known = returned(&[&b]);
    assert_eq!(known.begin(LATER, ADDRESS, is_gone), Some(Forgotten::Ended));
}

#[test]
fn the_way_to_this_node_is_cut_when_somebody_gives_the_address_up_twice() {
    let [b, c] = ["b", "c"].map(process);
    assert_eq!(begin(&mut returned(&[&b, &c]), LATER), Some(Forgotten::Ended));
    assert_eq!(begin(&mut returned(&[&b, &c, &b]), LATER), SPOKEN);
    // Nor is a way remembered that is too long.
    let many: Vec<Voted> = (0..=WAY_MAX).map(|number| process(&number.to_string())).collect();
    let many: Vec<&Voted> = many.iter().collect();
    assert_eq!(begin(&mut returned(&many), LATER), SPOKEN);
    assert_eq!(begin(&mut returned(&many[1..]), LATER), Some(Forgotten::Ended));
}

#[test]
fn the_way_to_this_node_ends_by_age() {
    let b = process("b");
    let away = |lasts: Duration| begin(&mut returned(&[&b]), NOW + lasts);
    assert_eq!(
        away(FORWARDED_FOR_MAX - Duration::from_nanos(1)),
        Some(Forgotten::Ended)
    );
    assert_eq!(away(FORWARDED_FOR_MAX + WHILE), SPOKEN);
}
