use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));
const NOW: Time = Time::from_secs(1_000);

fn name(text: &str) -> NodeName {
    text.into()
}

/// What a node knows that has just taken the address from `before`, whose vote it has.
fn taken_from(before: &str) -> Predecessors {
    let mut known = Predecessors::default();
    known.gave_up(NOW, ADDRESS, &name(before), false);
    assert!(!known.take_changed(), "who has not the address leads nothing");
    known.take(NOW, ADDRESS);
    known.follow(NOW, |_, _| true, |_| true);
    assert!(known.take_changed());
    assert_eq!(known.led_to(ADDRESS), Some(&name(before)));
    known
}

#[test]
fn who_takes_an_address_leads_to_the_one_before_as_soon_as_that_leads_nowhere_here() {
    let mut known = Predecessors::default();
    // Taken before it was heard who gave it up.
    known.take(NOW, ADDRESS);
    known.gave_up(NOW, ADDRESS, &name("a"), true);
    known.follow(NOW, |_, _| false, |_| true);
    assert_eq!(known.led_to(ADDRESS), None, "a may lead here");
    known.follow(NOW + Duration::from_secs(1), |_, node| **node == *"a", |_| true);
    assert_eq!(known.led().collect::<Vec<_>>(), [(ADDRESS, &name("a"))]);
    // It is not waited for any longer than that.
    let mut known = Predecessors::default();
    known.gave_up(NOW, ADDRESS, &name("a"), true);
    known.follow(NOW + VOTE_PATIENCE, |_, _| false, |_| true);
    known.follow(NOW + VOTE_PATIENCE, |_, _| true, |_| true);
    assert_eq!(known.led_to(ADDRESS), None);
}

#[test]
fn what_is_taken_is_unsettled_until_it_is_known_where_to_lead() {
    let unsettled = |known: &Predecessors| known.unsettled().count() == 1;
    // Who had it is not known, and then, whether that may lead here.
    let mut known = Predecessors::default();
    known.take(NOW, ADDRESS);
    assert!(known.take_changed());
    known.follow(NOW, |_, _| true, |_| false);
    assert!(unsettled(&known));
    known.gave_up(NOW, ADDRESS, &name("a"), true);
    known.follow(NOW, |_, _| false, |_| false);
    assert!(unsettled(&known) && !known.take_changed());
    known.follow(NOW, |_, _| true, |_| false);
    assert!(!unsettled(&known) && known.take_changed());
    assert_eq!(known.led_to(ADDRESS), Some(&name("a")));
    known.gave_up(NOW + VOTE_PATIENCE * 2, ADDRESS, &name("a"), true);
    assert!(!unsettled(&known), "it is said again");
    // Nobody had it, or who had it is dead; or it is not waited for any longer.
    for (later, is_told) in [(Duration::ZERO, true), (VOTE_PATIENCE, false)] {
        let mut known = Predecessors::default();
        known.take(NOW, ADDRESS);
        known.follow(NOW + later, |_, _| true, |_| is_told);
        assert!(!unsettled(&known));
    }
    // It goes.
    for is_nobodys in [true, false] {
        let mut known = Predecessors::default();
        known.take(NOW, ADDRESS);
        known.take_changed();
        match is_nobodys {
            true => known.forget_address(ADDRESS),
            false => known.give_up(ADDRESS, None),
        }
        assert!(!unsettled(&known) && known.take_changed());
    }
}

#[test]
fn who_gave_it_up_long_ago_need_not_be_the_last_one() {
    let mut known = taken_from("a");
    known.give_up(ADDRESS, Some(&name("b")));
    let back = NOW + Duration::from_secs(60);
    known.take(back, ADDRESS);
    known.follow(back, |_, _| true, |_| false);
    assert_eq!(known.unsettled().count(), 1, "b may not have told yet");
    known.gave_up(back, ADDRESS, &name("b"), true);
    known.follow(back, |_, _| true, |_| false);
    assert_eq!(known.led_to(ADDRESS), Some(&name("b")));
    assert_eq!(known.unsettled().count(), 0);
}

#[test]
fn an_address_that_goes_back_is_led_there_no_more() {
    let mut known = taken_from("a");
    known.give_up(ADDRESS, Some(&name("a")));
    assert!(known.take_changed());
    assert_eq!(known.led_to(ADDRESS), None);
    // By way of others it is heard when a asks, at the latest when a is lent the vote.
    for is_asking in [true, false] {
        let mut known = taken_from("a");
        known.give_up(ADDRESS, Some(&name("c")));
        assert!(!known.take_changed());
        assert_eq!(known.led_to(ADDRESS), Some(&name("a")), "the chain goes on");
        known.lent(ADDRESS, &name("c"));
        known.asked(ADDRESS, &name("c"));
        assert_eq!(known.led_to(ADDRESS), Some(&name("a")));
        match is_asking {
            true => known.asked(ADDRESS, &name("a")),
            false => known.lent(ADDRESS, &name("a")),
        }
        assert!(known.take_changed());
        assert_eq!(known.led_to(ADDRESS), None);
    }
}

#[test]
fn who_loses_an_address_or_gives_it_up_to_nobody_leads_nothing() {
    let mut known = taken_from("a");
    known.give_up(ADDRESS, None);
    assert_eq!(known.led_to(ADDRESS), None);
    // It comes back: a is still the one before.
    known.take(NOW, ADDRESS);
    known.follow(NOW, |_, _| true, |_| true);
    assert_eq!(known.led_to(ADDRESS), Some(&name("a")));
    known.keep_only(|_| true);
    assert_eq!(known.led_to(ADDRESS), Some(&name("a")));
    known.keep_only(|_| false);
    assert_eq!(known.led_to(ADDRESS), None);
}

#[test]
fn the_last_one_counts_and_an_owner_is_nobodys_predecessor() {
    let mut known = taken_from("a");
    known.give_up(ADDRESS, Some(&name("c")));
    known.gave_up(NOW, ADDRESS, &name("c"), true);
    known.follow(NOW, |_, _| true, |_| true);
    assert_eq!(known.led_to(ADDRESS), Some(&name("c")));
    let mut known = Predecessors::default();
    known.gave_up(NOW, ADDRESS, &name("a"), false);
    known.lent(ADDRESS, &name("a"));
    known.take(NOW, ADDRESS);
    known.follow(NOW, |_, _| true, |_| true);
    assert_eq!(known.led_to(ADDRESS), None);
}

#[test]
fn the_dead_the_gone_and_the_old_are_led_to_no_more() {
    let after = |lasts: Duration, presence: Presence| {
        let mut known = taken_from("a");
        known.expire(NOW + lasts, |_| presence);
        known.led_to(ADDRESS).is_some()
    };
    let moment = Duration::from_secs(1);
    assert!(after(moment, Presence::Silent(SILENCE_MAX)));
    assert!(!after(moment, Presence::Silent(SILENCE_MAX + moment)));
    assert!(!after(moment, Presence::Gone));
    assert!(
        after(FORWARDED_FOR_MAX - moment, Presence::Ending),
        "its machine still knows the connections"
    );
    assert!(!after(FORWARDED_FOR_MAX, Presence::Ending));
    assert!(!after(FORWARDED_FOR_MAX, Presence::Silent(Duration::ZERO)));
    let mut known = taken_from("a");
    known.forget_node(&name("b"));
    assert_eq!(known.led_to(ADDRESS), Some(&name("a")));
    known.forget_node(&name("a"));
    assert!(known.take_changed());
    assert_eq!(known.led_to(ADDRESS), None);
    let mut known = taken_from("a");
    known.forget_address(ADDRESS);
    assert!(known.take_changed());
    assert_eq!(known.led().count(), 0);
}
