//! ICMP echo requests of a size that must not be fragmented.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use explain::observation::Outcome;
use netlink::echo::{Echo, echo};

use super::ProbeAnswer;

/// Maximum number of requests. A single lost packet is not a finding.
const REQUESTS_MAX: usize = 2;

/// Sends a request as an IP packet of `bytes` bytes, and once more if no response arrives within `timeout`. Returns
/// `None` without the privilege to open a raw socket.
pub(super) fn send(target: IpAddr, bytes: u32, timeout: Duration) -> Option<ProbeAnswer> {
    let start = Instant::now();
    let bytes = usize::try_from(bytes).ok()?;
    let mut outcome = Outcome::Timeout;
    for _ in 0..REQUESTS_MAX {
        outcome = match echo(target, bytes, timeout).ok()? {
            Echo::Reply => Outcome::Answered,
            Echo::Timeout => continue,
            Echo::TooLarge => Outcome::TooLarge,
            Echo::Unreachable => Outcome::Unreachable,
        };
        break;
    }
    Some(ProbeAnswer::of(outcome, start.elapsed()))
}
