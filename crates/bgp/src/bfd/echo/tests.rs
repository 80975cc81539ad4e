//! Two sessions whose forwarding returns echo packets, and a network between them.

use std::time::Duration;

use proptest::prelude::*;

use super::{EchoPacket, EchoSettings};
use crate::Time;
use crate::bfd::{Diagnostic, Packet, Session, Settings, State};

const SECOND: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(50);
const STEP: Duration = Duration::from_millis(1);

/// Two sessions, and their packets so far.
struct Pair {
    sessions: [Session; 2],
    now: Time,
    /// Numbers of echo packets that each has sent.
    echoes: [usize; 2],
    /// Numbers of control packets that each has sent.
    controls: [usize; 2],
    last: [Option<Packet>; 2],
}

fn settings(echo: Option<EchoSettings>) -> Settings {
    Settings {
        receive_interval: INTERVAL,
        transmit_interval: INTERVAL,
        detect_multiplier: 3,
        is_passive: false,
        echo,
    }
}

/// Settings of a session that sends echo packets, and returns those of its peer at a period.
fn echoing(receive_interval: Duration) -> Settings {
    settings(Some(EchoSettings {
        transmit_interval: INTERVAL,
        receive_interval,
    }))
}

impl Pair {
    fn new(settings: [Settings; 2]) -> Self {
        let [first, second] = settings;
        Self {
            sessions: [
                Session::new(first, 1, 1, Time::ZERO),
                Session::new(second, 2, 2, Time::ZERO),
            ],
            now: Time::ZERO,
            echoes: [0; 2],
            controls: [0; 2],
            last: [None, None],
        }
    }

    /// Runs for a time. The network delivers control packets if `delivers`, and returns echo packets if `returns`.
    fn run(&mut self, time: Duration, delivers: bool, mut returns: impl FnMut() -> bool) {
        let end = self.now + time;
        (self.echoes, self.controls) = ([0; 2], [0; 2]);
        while self.now < end {
            for sender in 0..2 {
                if let Some(packet) = self.sessions[sender].tick(self.now) {
                    self.controls[sender] += 1;
                    if delivers {
                        self.sessions[1 - sender].received(self.now, &packet);
                    }
                    self.last[sender] = Some(packet);
                }
                if let Some(packet) = self.sessions[sender].tick_echo(self.now) {
                    self.echoes[sender] += 1;
                    let packet = EchoPacket::decode(&packet.encode()).expect("a packet of ours");
                    if returns() {
                        self.sessions[sender].received_echo(self.now, &packet);
                    }
                }
            }
            self.now += STEP;
        }
    }

    fn states(&self) -> [State; 2] {
        self.sessions.each_ref().map(Session::state)
    }
}

#[test]
fn echo_packets_replace_fast_control_packets() {
    let mut pair = Pair::new([echoing(INTERVAL); 2]);
    pair.run(SECOND * 4, true, || true);
    assert_eq!(pair.states(), [State::Up; 2]);
    pair.run(SECOND * 10, true, || true);
    assert_eq!(pair.states(), [State::Up; 2]);
    // At 75 to 100 percent of the period.
    let is_expected = |count: &usize| (190..=267).contains(count);
    assert!(pair.echoes.iter().all(is_expected), "{:?}", pair.echoes);
    let is_slow = |count: &usize| (9..=15).contains(count);
    assert!(pair.controls.iter().all(is_slow), "{:?}", pair.controls);
    for last in pair.last.iter().flatten() {
        assert_eq!((last.required_receive, last.required_echo), (SECOND, INTERVAL));
    }
}

#[test]
fn period_of_the_peer_limits_echo_packets() {
    let mut pair = Pair::new([echoing(INTERVAL), echoing(INTERVAL * 4)]);
    pair.run(SECOND * 4, true, || true);
    pair.run(SECOND * 10, true, || true);
    assert!((50..=67).contains(&pair.echoes[0]), "{:?}", pair.echoes);
    assert!((200..=267).contains(&pair.echoes[1]), "{:?}", pair.echoes);
}

#[test]
fn peer_that_returns_no_packets_gets_no_echo_packets() {
    for peer in [settings(None), echoing(Duration::ZERO)] {
        let mut pair = Pair::new([echoing(INTERVAL), peer]);
        pair.run(SECOND * 4, true, || true);
        pair.run(SECOND * 2, true, || true);
        assert_eq!((pair.states(), pair.echoes[0]), ([State::Up; 2], 0));
        // A peer that sends echo packets itself requests slow control packets.
        assert_eq!(pair.controls[0] >= 40, peer.echo.is_none(), "{:?}", pair.controls);
    }
}

#[test]
fn detects_a_broken_path_within_three_echo_intervals() {
    // The second session returns packets and sends few.
    let returning = settings(Some(EchoSettings {
        transmit_interval: SECOND * 60,
        receive_interval: INTERVAL,
    }));
    let mut pair = Pair::new([echoing(INTERVAL), returning]);
    pair.run(SECOND * 4, true, || true);
    assert_eq!(pair.states(), [State::Up; 2]);
    assert!(!pair.sessions[0].take_loss());
    // Control packets arrive, and echo packets do not.
    pair.run(INTERVAL * 3 + STEP * 2, true, || false);
    assert!(pair.sessions[0].take_loss());
    assert_ne!(pair.states()[1], State::Up, "the peer learns it at once");
    let last = pair.last[0].as_ref().expect("a packet");
    assert_eq!(
        (last.state, last.diagnostic),
        (State::Down, Diagnostic::EchoFailed)
    );
    pair.run(SECOND * 5, true, || true);
    assert_eq!(pair.states(), [State::Up; 2]);
    pair.run(SECOND, true, || true);
    assert!(pair.echoes[0] >= 19, "{:?}", pair.echoes);
}

#[test]
fn stays_up_while_single_echo_packets_are_lost() {
    let mut pair = Pair::new([echoing(INTERVAL); 2]);
    pair.run(SECOND * 4, true, || true);
    let mut count = 0;
    pair.run(SECOND * 20, true, || {
        count += 1;
        count % 5 != 0
    });
    assert!(!pair.sessions.iter_mut().any(Session::take_loss));
}

#[test]
fn silence_of_control_packets_is_a_loss_beside_returned_echo_packets() {
    let mut pair = Pair::new([echoing(INTERVAL); 2]);
    pair.run(SECOND * 4, true, || true);
    // Three slow periods.
    pair.run(SECOND * 3 + STEP * 2, false, || true);
    assert!(pair.sessions.iter_mut().all(Session::take_loss));
    assert_eq!(pair.states(), [State::Down; 2]);
}

#[test]
fn packets_that_were_not_sent_have_no_effect() {
    let mut pair = Pair::new([echoing(INTERVAL); 2]);
    pair.run(SECOND * 4, true, || true);
    let session = &mut pair.sessions[0];
    let packet = loop {
        pair.now += STEP;
        if let Some(packet) = session.tick_echo(pair.now) {
            break packet;
        }
    };
    session.received_echo(pair.now, &packet);
    let end = pair.now + INTERVAL * 3;
    while pair.now < end {
        // A replay, another token, and another session.
        for (discriminator, token) in [(1, packet.token), (1, 7), (2, packet.token)] {
            session.received_echo(pair.now, &EchoPacket { discriminator, token });
        }
        pair.now += STEP;
    }
    assert!(session.tick(pair.now).is_some());
    assert!(session.take_loss());
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        if let Some(packet) = EchoPacket::decode(&bytes) {
            let encoded = packet.encode();
            prop_assert_eq!(encoded.as_slice(), bytes.as_slice());
        }
    }
}
