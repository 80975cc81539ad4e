//! Echo function (RFC 5880, section 6.4): packets to this host that the forwarding of the peer returns.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

use crate::Time;

#[cfg(test)]
mod tests;

/// Length of a packet.
const PACKET_BYTES: usize = 12;
/// Largest part of the period by which a packet is early (RFC 5880, section 6.8.9).
const JITTER: f64 = 0.25;

/// Settings of the echo function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSettings {
    /// Minimum period of packets that this host sends.
    pub transmit_interval: Duration,
    /// Minimum period of packets of the peer that this host returns; zero to return none.
    pub receive_interval: Duration,
}

/// A packet. Only its sender reads the content (RFC 5880, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoPacket {
    /// Number of the session.
    pub discriminator: u32,
    /// Random number, which hosts that do not see the packet cannot send.
    pub token: u64,
}

impl EchoPacket {
    /// Decodes a datagram; `None` if it has another length.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PACKET_BYTES] = bytes.try_into().ok()?;
        let [a, b, c, d, token @ ..] = *bytes;
        Some(Self {
            discriminator: u32::from_be_bytes([a, b, c, d]),
            token: u64::from_be_bytes(token),
        })
    }

    /// Encodes the packet.
    pub fn encode(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[..4].copy_from_slice(&self.discriminator.to_be_bytes());
        bytes[4..].copy_from_slice(&self.token.to_be_bytes());
        bytes
    }
}

/// Echo function of a session that is up.
#[derive(Debug)]
pub(super) struct Echo {
    interval: Duration,
    multiplier: u8,
    due: Time,
    deadline: Time,
    /// Tokens of packets that may return, oldest first.
    outstanding: VecDeque<u64>,
}

impl Echo {
    /// Starts to send packets at a period.
    pub(super) fn start(now: Time, interval: Duration, multiplier: u8) -> Self {
        Self {
            interval,
            multiplier,
            due: now,
            deadline: now + interval * u32::from(multiplier),
            outstanding: VecDeque::new(),
        }
    }

    /// Continues with a period. Another one than before starts the detection time again.
    pub(super) fn with_interval(mut self, now: Time, interval: Duration) -> Self {
        if self.interval != interval {
            self.interval = interval;
            self.due = self.due.min(now + interval);
            self.extend(now);
        }
        self
    }

    /// Processes a returned packet; one that was not sent, or has returned before, has no effect.
    pub(super) fn received(&mut self, now: Time, token: u64) {
        if let Some(position) = self.outstanding.iter().position(|other| *other == token) {
            self.outstanding.remove(position);
            self.extend(now);
        }
    }

    /// Returns true if no packet has returned for the detection time.
    pub(super) fn has_failed(&self, now: Time) -> bool {
        self.deadline <= now
    }

    /// Returns the token of the packet that is due.
    pub(super) fn tick(&mut self, now: Time, random: &mut Rng) -> Option<u64> {
        if self.due > now {
            return None;
        }
        // At most 4/3 packets a period are sent, and later ones than those of the detection time do not count.
        if self.outstanding.len() > usize::from(self.multiplier) * 2 {
            self.outstanding.pop_front();
        }
        let token = random.u64(..);
        self.outstanding.push_back(token);
        self.due = now + self.interval.mul_f64(1.0 - JITTER * random.f64());
        Some(token)
    }

    /// Returns the time of the next packet or failure.
    pub(super) fn next_wake(&self) -> Time {
        self.due.min(self.deadline)
    }

    fn extend(&mut self, now: Time) {
        self.deadline = now + self.interval * u32::from(self.multiplier);
    }
}
