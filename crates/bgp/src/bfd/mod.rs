//! Bidirectional Forwarding Detection (RFC 5880), asynchronous mode: packets and the state machine of a session.
//!
//! Both speakers send packets at a fixed period. A session that misses [`Settings::detect_multiplier`] packets of the
//! peer is down. With the echo function of [`EchoSettings`], control packets are slow. The session is then also down
//! if the peer returns none of as many echo packets. There is no authentication. This side is never in demand mode, and
//! sends no periodic packets to a peer that is.

mod echo;
mod packet;

use std::time::Duration;

use fastrand::Rng;

pub use echo::{EchoPacket, EchoSettings};
pub use packet::{Diagnostic, Packet, State};

use crate::Time;
use echo::Echo;

#[cfg(test)]
mod tests;

/// Minimum period of control packets while the session is not up. While the echo function is active, it is the
/// minimum period for the packets of the peer (RFC 5880, section 6.8.3).
const SLOW_PERIOD: Duration = Duration::from_secs(1);

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum period of packets that this host receives.
    pub receive_interval: Duration,
    /// Minimum period of packets that this host sends.
    pub transmit_interval: Duration,
    /// Number of missed packets after which the session is down; not 0.
    pub detect_multiplier: u8,
    /// True to send nothing before the first packet of the peer.
    pub is_passive: bool,
    /// Echo function; `None` to neither send nor return echo packets.
    pub echo: Option<EchoSettings>,
}

/// State machine of one session.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    random: Rng,
    state: State,
    diagnostic: Diagnostic,
    discriminator: u32,
    peer_discriminator: u32,
    peer_multiplier: u8,
    peer_transmit_interval: Duration,
    peer_receive_interval: Duration,
    /// Minimum period of echo packets that the peer returns; zero if it returns none.
    peer_echo_interval: Duration,
    /// The peer is up and in demand mode.
    is_peer_on_demand: bool,
    /// Echo function, while it is active.
    echo: Option<Echo>,
    has_received: bool,
    deadline: Option<Time>,
    transmit_due: Option<Time>,
    /// A parameter has changed since the peer last confirmed.
    polls: bool,
    /// The peer requests a confirmation.
    must_confirm: bool,
    /// The session was up and lost the peer.
    has_lost: bool,
}

impl Session {
    /// Creates a session that is down. `discriminator` is unique on this host and not 0.
    pub fn new(settings: Settings, discriminator: u32, seed: u64, now: Time) -> Self {
        Self {
            settings,
            random: Rng::with_seed(seed),
            state: State::Down,
            diagnostic: Diagnostic::None,
            discriminator,
            peer_discriminator: 0,
            peer_multiplier: 1,
            peer_transmit_interval: SLOW_PERIOD,
            peer_receive_interval: Duration::from_micros(1),
            peer_echo_interval: Duration::ZERO,
            is_peer_on_demand: false,
            echo: None,
            has_received: false,
            deadline: None,
            transmit_due: (!settings.is_passive).then_some(now),
            polls: false,
            must_confirm: false,
            has_lost: false,
        }
    }

    /// Returns true if the session has lost the peer since the last call. It was up, and the detection time
    /// expired or the peer reported a failure. The end of the session by an administrator of either side is not a loss
    /// (RFC 5882).
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Returns the state of this side.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the reason of the last change of the state.
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// Returns the discriminator of this side, which the peer repeats.
    pub fn discriminator(&self) -> u32 {
        self.discriminator
    }

    /// Processes a packet for this session (RFC 5880, section 6.8.6).
    pub fn received(&mut self, now: Time, packet: &Packet) {
        let is_for_other = packet.your_discriminator != 0 && packet.your_discriminator != self.discriminator;
        let is_first_late =
            packet.your_discriminator == 0 && !matches!(packet.state, State::Down | State::AdminDown);
        if is_for_other || is_first_late {
            return;
        }
        let is_first = !std::mem::replace(&mut self.has_received, true);
        self.peer_discriminator = packet.my_discriminator;
        self.peer_multiplier = packet.detect_multiplier;
        self.peer_transmit_interval = packet.desired_transmit;
        self.peer_receive_interval = packet.required_receive;
        self.peer_echo_interval = packet.required_echo;
        self.is_peer_on_demand = packet.has_demand && packet.state == State::Up;
        if packet.is_final {
            self.polls = false;
        }
        self.must_confirm |= packet.is_poll;
        self.change_state(packet.state);
        self.update_echo(now);
        let interval = self.expected_receive().max(self.peer_transmit_interval);
        self.deadline = Some(now + interval * u32::from(self.peer_multiplier));
        let next = self.sends_periodically().then(|| now + self.period());
        self.transmit_due = match (self.transmit_due, next) {
            // A confirmation is sent at once, and the first packet of a passive session.
            _ if self.must_confirm || is_first => Some(now),
            (Some(due), Some(next)) => Some(due.min(next)),
            (_, next) => next,
        };
    }

    /// Returns false if the peer receives no periodic packets (RFC 5880, section 6.8.7).
    fn sends_periodically(&self) -> bool {
        let is_on_demand = self.is_peer_on_demand && self.state == State::Up && !self.polls;
        !self.peer_receive_interval.is_zero() && !is_on_demand
    }

    fn change_state(&mut self, peer: State) {
        self.has_lost |= self.state == State::Up && peer == State::Down;
        let (state, diagnostic) = match (self.state, peer) {
            (State::AdminDown, _) => return,
            (State::Down, State::Down) => (State::Init, Diagnostic::None),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                (State::Up, Diagnostic::None)
            }
            (State::Init | State::Up, State::AdminDown) | (State::Up, State::Down) => {
                (State::Down, Diagnostic::NeighborDown)
            }
            _ => return,
        };
        self.set_state(state, diagnostic);
    }

    fn set_state(&mut self, state: State, diagnostic: Diagnostic) {
        // The period of sent packets changes between slow and the settings', which the peer has to confirm.
        self.polls = (state == State::Up) || (self.polls && state != State::Down);
        self.state = state;
        self.diagnostic = diagnostic;
        if state != State::Up {
            self.echo = None;
        }
    }

    /// Starts, changes or ends the echo function, which needs a session that is up and a peer that returns the packets.
    fn update_echo(&mut self, now: Time) {
        let is_possible = self.state == State::Up && !self.peer_echo_interval.is_zero();
        let settings = self.settings.echo.filter(|_| is_possible);
        let interval = settings.map(|settings| settings.transmit_interval.max(self.peer_echo_interval));
        let before = self.echo.take();
        let was_active = before.is_some();
        self.echo = interval.map(|interval| match before {
            Some(echo) => echo.with_interval(now, interval),
            None => Echo::start(now, interval, self.settings.detect_multiplier),
        });
        if self.state == State::Up && was_active != self.echo.is_some() {
            // The peer has to confirm the other period of its control packets.
            self.polls = true;
        }
    }

    /// Processes an echo packet that the peer has returned.
    pub fn received_echo(&mut self, now: Time, packet: &EchoPacket) {
        if packet.discriminator != self.discriminator {
            return;
        }
        if let Some(echo) = &mut self.echo {
            echo.received(now, packet.token);
        }
    }

    /// Returns the echo packet to send. [`Session::tick`] has to be called first for the same time.
    pub fn tick_echo(&mut self, now: Time) -> Option<EchoPacket> {
        let token = self.echo.as_mut()?.tick(now, &mut self.random)?;
        Some(EchoPacket {
            discriminator: self.discriminator,
            token,
        })
    }

    /// Processes expired timers, and returns the packet to send.
    pub fn tick(&mut self, now: Time) -> Option<Packet> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.peer_discriminator = 0;
            self.has_received = false;
            self.has_lost |= self.state == State::Up;
            if matches!(self.state, State::Init | State::Up) {
                self.set_state(State::Down, Diagnostic::DetectionTimeExpired);
            }
            self.peer_receive_interval = Duration::from_micros(1);
            self.transmit_due = if self.settings.is_passive {
                None
            } else {
                self.transmit_due.or(Some(now))
            };
        }
        if self.echo.as_ref().is_some_and(|echo| echo.has_failed(now)) {
            self.has_lost = true;
            self.set_state(State::Down, Diagnostic::EchoFailed);
            // The peer receives the reason at once.
            self.transmit_due = Some(now);
        }
        if self.transmit_due.is_none_or(|due| due > now) {
            return None;
        }
        let is_final = std::mem::take(&mut self.must_confirm);
        let packet = self.packet(is_final);
        let jitter = if self.settings.detect_multiplier == 1 {
            0.15
        } else {
            0.25
        };
        let period = self
            .period()
            .mul_f64(1.0 - 0.1_f64.min(jitter) - (jitter - 0.1) * self.random.f64());
        self.transmit_due = self.sends_periodically().then(|| now + period);
        Some(packet)
    }

    /// Ends the session; returns the packet that informs the peer.
    pub fn shut_down(&mut self) -> Packet {
        self.set_state(State::AdminDown, Diagnostic::AdministrativelyDown);
        self.transmit_due = None;
        self.deadline = None;
        self.packet(false)
    }

    /// Returns the time of the next [`Session::tick`].
    pub fn next_wake(&self) -> Option<Time> {
        let echo = self.echo.as_ref().map(Echo::next_wake);
        [self.deadline, self.transmit_due, echo]
            .into_iter()
            .flatten()
            .min()
    }

    fn packet(&self, is_final: bool) -> Packet {
        Packet {
            state: self.state,
            diagnostic: self.diagnostic,
            // A packet has one of both (RFC 5880, section 6.5).
            is_poll: self.polls && !is_final,
            is_final,
            has_demand: false,
            detect_multiplier: self.settings.detect_multiplier,
            my_discriminator: self.discriminator,
            your_discriminator: self.peer_discriminator,
            desired_transmit: self.desired_transmit(),
            required_receive: if self.echo.is_some() {
                self.slow_receive()
            } else {
                self.settings.receive_interval
            },
            required_echo: self
                .settings
                .echo
                .map_or(Duration::ZERO, |echo| echo.receive_interval),
        }
    }

    fn desired_transmit(&self) -> Duration {
        if self.state == State::Up {
            self.settings.transmit_interval
        } else {
            self.settings.transmit_interval.max(SLOW_PERIOD)
        }
    }

    /// Returns the minimum period of the peer's control packets for the detection time. A shorter one than before
    /// counts only after the peer has confirmed it.
    fn expected_receive(&self) -> Duration {
        if self.echo.is_some() || (self.polls && self.settings.echo.is_some()) {
            self.slow_receive()
        } else {
            self.settings.receive_interval
        }
    }

    /// Returns the minimum period of received control packets while the echo function is active.
    fn slow_receive(&self) -> Duration {
        self.settings.receive_interval.max(SLOW_PERIOD)
    }

    /// Returns the period of sent packets, before its jitter.
    fn period(&self) -> Duration {
        self.desired_transmit().max(self.peer_receive_interval)
    }
}
