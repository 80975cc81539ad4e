//! Control packets (RFC 5880, section 4.1).

use std::time::Duration;

/// Length of a packet without authentication.
const PACKET_BYTES: usize = 24;
const VERSION: u8 = 1;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const AUTHENTICATION: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ended by the operator.
    AdminDown,
    /// No connectivity.
    Down,
    /// Packets of the peer arrive.
    Init,
    /// Packets arrive in both directions.
    Up,
}

/// Reason of the last change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the RFC")]
pub enum Diagnostic {
    None,
    DetectionTimeExpired,
    EchoFailed,
    NeighborDown,
    AdministrativelyDown,
    /// Any other; its number does not matter.
    Other(u8),
}

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// State of the sender.
    pub state: State,
    /// Reason of its last change.
    pub diagnostic: Diagnostic,
    /// The sender requests a packet with `is_final`.
    pub is_poll: bool,
    /// Response to a packet with `is_poll`.
    pub is_final: bool,
    /// The sender is in demand mode: once both sides are up, it receives no periodic packets.
    pub has_demand: bool,
    /// Number of missed packets after which the receiver declares the session down.
    pub detect_multiplier: u8,
    /// Number of the session for the sender.
    pub my_discriminator: u32,
    /// Number of the session for the receiver; 0 if the sender does not know it.
    pub your_discriminator: u32,
    /// Minimum period of sent packets.
    pub desired_transmit: Duration,
    /// Minimum period of received packets; zero to receive none.
    pub required_receive: Duration,
    /// Minimum period of received echo packets; zero if the sender returns none.
    pub required_echo: Duration,
}

impl Packet {
    /// Decodes a datagram; `None` if it is invalid or needs authentication (RFC 5880, section 6.8.6).
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let length = usize::from(*bytes.get(3)?);
        let fixed: &[u8; PACKET_BYTES] = bytes.first_chunk()?;
        let [first, flags, detect_multiplier, ..] = *fixed;
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|index| fixed[at + index]));
        let (my_discriminator, your_discriminator) = (number(4), number(8));
        let is_valid = first >> 5 == VERSION
            && length >= PACKET_BYTES
            && length <= bytes.len()
            && flags & (AUTHENTICATION | MULTIPOINT) == 0
            && flags & (POLL | FINAL) != POLL | FINAL
            && detect_multiplier != 0
            && my_discriminator != 0;
        let interval = |at| Duration::from_micros(u64::from(number(at)));
        is_valid.then(|| Self {
            state: match flags >> 6 {
                0 => State::AdminDown,
                1 => State::Down,
                2 => State::Init,
                _ => State::Up,
            },
            diagnostic: Diagnostic::of(first & 0x1f),
            is_poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            has_demand: flags & DEMAND != 0,
            detect_multiplier,
            my_discriminator,
            your_discriminator,
            desired_transmit: interval(12),
            required_receive: interval(16),
            required_echo: interval(20),
        })
    }

    /// Encodes the packet.
    pub fn encode(&self) -> [u8; PACKET_BYTES] {
        let state = match self.state {
            State::AdminDown => 0,
            State::Down => 1,
            State::Init => 2,
            State::Up => 3,
        };
        let mut flags = state << 6;
        if self.is_poll {
            flags |= POLL;
        }
        if self.is_final {
            flags |= FINAL;
        }
        if self.has_demand {
            flags |= DEMAND;
        }
        let mut bytes = [0; PACKET_BYTES];
        bytes[0] = VERSION << 5 | self.diagnostic.number();
        bytes[1] = flags;
        bytes[2] = self.detect_multiplier;
        bytes[3] = 24;
        let micros = |duration: Duration| u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        let numbers = [
            self.my_discriminator,
            self.your_discriminator,
            micros(self.desired_transmit),
            micros(self.required_receive),
            micros(self.required_echo),
        ];
        for (target, number) in bytes[4..].chunks_mut(4).zip(numbers) {
            target.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

impl Diagnostic {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::None,
            1 => Self::DetectionTimeExpired,
            2 => Self::EchoFailed,
            3 => Self::NeighborDown,
            7 => Self::AdministrativelyDown,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::DetectionTimeExpired => 1,
            Self::EchoFailed => 2,
            Self::NeighborDown => 3,
            Self::AdministrativelyDown => 7,
            Self::Other(number) => number & 0x1f,
        }
    }
}
