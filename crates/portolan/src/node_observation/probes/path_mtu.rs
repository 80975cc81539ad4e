//! ICMP echo requests of a size that must not be fragmented.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use explain::observation::Outcome;
use netlink::echo::{Echo, echo};

use super::Answer;

/// Sends a request as an IP packet of `bytes` bytes; `None` without the privilege to open a raw socket.
pub fn send(target: IpAddr, bytes: u32, timeout: Duration) -> Option<Answer> {
    let start = Instant::now();
    let response = echo(target, usize::try_from(bytes).ok()?, timeout).ok()?;
    let outcome = match response {
        Echo::Reply => Outcome::Answered,
        Echo::Timeout => Outcome::Timeout,
        Echo::TooLarge => Outcome::TooLarge,
        Echo::Unreachable => Outcome::Unreachable,
    };
    Some(Answer::of(outcome, start.elapsed()))
}
