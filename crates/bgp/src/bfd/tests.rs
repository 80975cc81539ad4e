//! Two sessions with a lossy network between them, and packets.

use std::time::Duration;

use fastrand::Rng;
use proptest::prelude::*;

use super::{Packet, Session, Settings, State};
use crate::Time;

const INTERVAL: Duration = Duration::from_millis(50);
const STEP: Duration = Duration::from_millis(1);

fn settings(is_passive: bool) -> Settings {
    Settings {
        receive_interval: INTERVAL,
        transmit_interval: INTERVAL,
        detect_multiplier: 3,
        is_passive,
        echo: None,
    }
}

/// Runs two sessions until `end`, through a network that delivers a packet if `delivers` returns true.
fn run(sessions: &mut [Session; 2], now: &mut Time, end: Time, mut delivers: impl FnMut() -> bool) {
    while *now < end {
        for sender in 0..2 {
            let Some(packet) = sessions[sender].tick(*now) else {
                continue;
            };
            let packet = Packet::decode(&packet.encode()).expect("a packet of ours");
            if delivers() {
                sessions[1 - sender].received(*now, &packet);
            }
        }
        *now += STEP;
    }
}

fn pair(is_passive: bool) -> [Session; 2] {
    [
        Session::new(settings(false), 1, 1, Time::ZERO),
        Session::new(settings(is_passive), 2, 2, Time::ZERO),
    ]
}

#[test]
fn detects_a_loss_within_three_intervals() {
    for is_passive in [false, true] {
        let (mut sessions, mut now) = (pair(is_passive), Time::ZERO);
        run(&mut sessions, &mut now, Duration::from_secs(4), || true);
        assert_eq!(sessions.each_ref().map(Session::state), [State::Up; 2]);
        let end = now + INTERVAL * 3 + STEP * 2;
        run(&mut sessions, &mut now, end, || false);
        assert_eq!(sessions.each_ref().map(Session::state), [State::Down; 2]);
        let end = now + Duration::from_secs(5);
        run(&mut sessions, &mut now, end, || true);
        assert_eq!(sessions.each_ref().map(Session::state), [State::Up; 2]);
    }
}

#[test]
fn stays_up_while_single_packets_are_lost() {
    let (mut sessions, mut now) = (pair(false), Time::ZERO);
    run(&mut sessions, &mut now, Duration::from_secs(4), || true);
    let mut count = 0;
    for _ in 0..200 {
        let end = now + INTERVAL;
        run(&mut sessions, &mut now, end, || {
            count += 1;
            count % 5 != 0
        });
        assert_eq!(sessions.each_ref().map(Session::state), [State::Up; 2]);
    }
}

#[test]
fn recovers_after_any_losses() {
    for seed in 0..50 {
        let (mut sessions, mut now) = (pair(seed % 2 == 0), Time::ZERO);
        let mut random = Rng::with_seed(seed);
        run(&mut sessions, &mut now, Duration::from_secs(20), || {
            random.f64() < 0.4
        });
        let end = now + Duration::from_secs(8);
        run(&mut sessions, &mut now, end, || true);
        assert_eq!(
            sessions.each_ref().map(Session::state),
            [State::Up; 2],
            "seed {seed}"
        );
    }
}

#[test]
fn shutdown_ends_the_session_of_the_peer() {
    let (mut sessions, mut now) = (pair(false), Time::ZERO);
    run(&mut sessions, &mut now, Duration::from_secs(4), || true);
    let packet = sessions[0].shut_down();
    sessions[1].received(now, &packet);
    assert_eq!(sessions[1].state(), State::Down);
    assert!(!sessions[1].take_loss());
    assert_eq!(sessions[0].next_wake(), None);
}

#[test]
fn silence_is_a_loss() {
    let (mut sessions, mut now) = (pair(false), Time::ZERO);
    run(&mut sessions, &mut now, Duration::from_secs(4), || true);
    assert!(!sessions.iter_mut().any(Session::take_loss));
    let end = now + Duration::from_secs(4);
    run(&mut sessions, &mut now, end, || false);
    assert!(sessions.iter_mut().all(Session::take_loss));
    assert!(!sessions.iter_mut().any(Session::take_loss));
}

#[test]
fn sends_no_periodic_packets_to_a_peer_that_receives_none() {
    let changes: [fn(&mut Packet); 2] = [
        |packet| packet.required_receive = Duration::ZERO,
        |packet| packet.has_demand = true,
    ];
    for change in changes {
        let ([mut session, mut peer], mut now) = {
            let (mut sessions, mut now) = (pair(false), Time::ZERO);
            run(&mut sessions, &mut now, Duration::from_secs(4), || true);
            (sessions, now)
        };
        let mut packet = loop {
            if let Some(packet) = peer.tick(now) {
                break packet;
            }
            now += STEP;
        };
        change(&mut packet);
        for _ in 0..40 {
            session.received(now, &packet);
            assert_eq!(session.tick(now), None);
            now += INTERVAL;
        }
        // A poll is confirmed.
        packet.is_poll = true;
        session.received(now, &packet);
        assert!(session.tick(now).is_some_and(|packet| packet.is_final));
        assert_eq!(session.tick(now + INTERVAL), None);
        assert_eq!(session.state(), State::Up);
        // After a loss, the peer may receive packets again.
        now += INTERVAL * 3;
        assert!(
            session
                .tick(now)
                .is_some_and(|packet| packet.state == State::Down)
        );
    }
}

#[test]
fn ignores_packets_of_other_sessions() {
    let mut session = Session::new(settings(false), 7, 1, Time::ZERO);
    let mut other = Session::new(settings(false), 9, 1, Time::ZERO);
    let mut packet = other.tick(Time::ZERO).expect("a packet");
    packet.your_discriminator = 8;
    session.received(Time::ZERO, &packet);
    assert_eq!(session.state(), State::Down);
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        }
    }
}
