//! Forwarded packets, as the kernel counts them for the links.
//!
//! The link of the first hop carries packets of clients to current nodes. The other links carry packets to previous nodes,
//! and a few to current nodes while the tables of nodes differ. The rules therefore need no counters, which would cost time
//! for each packet.

use std::{fs, io};

use super::links::hop_name;
use super::state::HOPS;

/// Statistics of the links of the calling thread's network namespace (`proc_net(5)`).
const LINK_STATISTICS: &str = "/proc/thread-self/net/dev";
/// Index of the sent packets among the numbers of a link.
const SENT_PACKETS: usize = 9;

/// Packets that this node has forwarded since its links were created. A packet that offloading joined from several ones
/// counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedPackets {
    /// To the current node of their slot.
    pub to_current: u64,
    /// To another node, because the current one did not track the connection: mostly a previous node of the slot.
    pub to_previous: u64,
}

impl ForwardedPackets {
    /// Reads the counters in the network namespace of the calling thread. Returns `None` without links.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] if the kernel's statistics cannot be read.
    pub fn read() -> io::Result<Option<Self>> {
        Ok(parse(&fs::read_to_string(LINK_STATISTICS)?))
    }
}

fn parse(statistics: &str) -> Option<ForwardedPackets> {
    let sent_by = |hop: usize| {
        let name = hop_name(hop);
        let mut lines = statistics.lines().filter_map(|line| line.split_once(':'));
        let (_, numbers) = lines.find(|(link, _)| link.trim() == name)?;
        numbers
            .split_ascii_whitespace()
            .nth(SENT_PACKETS)?
            .parse::<u64>()
            .ok()
    };
    Some(ForwardedPackets {
        to_current: sent_by(1)?,
        to_previous: (2..=HOPS).filter_map(sent_by).sum(),
    })
}

#[cfg(test)]
mod tests;
