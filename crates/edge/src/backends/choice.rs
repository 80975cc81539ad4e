//! Choice of a backend for a new connection or request. Pure: candidates are numbers.
//!
//! The rank of a candidate states how usable it is, and the algorithm chooses among those of the lowest rank only.
//! Round robin takes the next one, least connections the one with the fewest open connections and requests. Maglev
//! takes the first one behind the table entry of the client's address, so that most clients keep their backend when
//! others change. Candidates that are unhealthy or ejected remain a fallback; those without a rank are never chosen.

use std::net::{IpAddr, SocketAddr};

use crate::settings::Balance;

/// Properties of a candidate that matter for the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rating {
    /// Rank of the candidate.
    pub rank: Rank,
    /// Number of open connections and requests.
    pub open_connections_and_requests: usize,
}

/// Rank of a candidate. Only candidates of the lowest rank are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u8);

/// Conditions that determine a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    /// True if its endpoint is ready.
    pub is_ready: bool,
    /// True if its endpoint terminates and still serves.
    pub is_serving_while_terminating: bool,
    /// True if its health checks pass, or there are none.
    pub is_healthy: bool,
    /// True if it is ejected after repeated failures.
    pub is_ejected: bool,
    /// True if the candidate is in the preferred zone, or the choice ignores zones.
    pub is_in_preferred_zone: bool,
}

impl Rank {
    /// Best rank.
    pub(super) const BEST: Self = Self(0);
    /// First rank that is chosen only if there is no usable candidate.
    const FALLBACK: Self = Self(2);

    /// Returns the rank of a candidate; `None` if the candidate accepts no connections.
    ///
    /// Candidates that are ready, healthy and not ejected come first. Terminating candidates that still serve (KEP-1669)
    /// follow, then ejected candidates, and then unhealthy candidates. If a health check fails for all backends, an
    /// unsuitable check is more likely than a failure of all backends. Of equal candidates, those in the preferred zone
    /// precede the others.
    pub(super) fn of(condition: Condition) -> Option<Self> {
        let Condition {
            is_ready,
            is_serving_while_terminating,
            is_healthy,
            is_ejected,
            is_in_preferred_zone,
        } = condition;
        let level = match (is_ready, is_healthy, is_ejected) {
            (false, ..) if !is_serving_while_terminating => return None,
            (true, true, false) => 0,
            (false, true, false) => 1,
            (_, true, true) => 2,
            (true, false, _) => 3,
            (false, false, _) => 4,
        };
        Some(Self(level * 2 + u8::from(!is_in_preferred_zone)))
    }

    /// Returns true for a candidate of any zone that is ready, healthy and not ejected.
    pub(super) fn is_usable(self) -> bool {
        self < Self::FALLBACK
    }
}

/// State of the choice among the backends of a port.
#[derive(Debug, Default)]
pub(super) struct Choice {
    balance: Balance,
    /// Candidate from which the next search starts.
    next: usize,
    /// Maglev's lookup table of candidates.
    table: Vec<usize>,
}

impl Choice {
    /// Sets the algorithm and the candidates. Round robin continues from its last position.
    pub(super) fn set(&mut self, balance: Balance, addresses: &[SocketAddr]) {
        self.balance = balance;
        self.table = match balance {
            Balance::Maglev => maglev::lookup_table((0..addresses.len()).collect(), |number| {
                let address = addresses.get(*number).map(ToString::to_string);
                address.unwrap_or_default().into_bytes()
            }),
            Balance::RoundRobin | Balance::LeastConnections => Vec::new(),
        };
    }

    /// Chooses one of `count` candidates. Candidates without a rating are skipped.
    pub(super) fn choose(
        &mut self,
        client: IpAddr,
        count: usize,
        rating: impl Fn(usize) -> Option<Rating>,
    ) -> Option<usize> {
        let start = self.next % count.max(1);
        let in_turn = (start..count).chain(0..start);
        let chosen = match self.balance {
            Balance::RoundRobin => first_of_lowest_rank(in_turn, &rating)?,
            Balance::LeastConnections => in_turn
                .filter_map(|number| {
                    rating(number).map(|rating| ((rating.rank, rating.open_connections_and_requests), number))
                })
                .min_by_key(|(key, _)| *key)
                .map(|(_, number)| number)?,
            Balance::Maglev => {
                let entry = hash(client) % self.table.len().max(1);
                let (before, behind) = self.table.split_at_checked(entry)?;
                let preferred = behind.iter().chain(before).copied();
                // With more backends than entries, some are not in the table.
                first_of_lowest_rank(preferred.chain(in_turn), &rating)?
            }
        };
        self.next = chosen + 1;
        Some(chosen)
    }
}

fn first_of_lowest_rank(
    numbers: impl Iterator<Item = usize>,
    rating: impl Fn(usize) -> Option<Rating>,
) -> Option<usize> {
    let mut lowest: Option<(Rank, usize)> = None;
    for number in numbers {
        let Some(Rating { rank, .. }) = rating(number) else {
            continue;
        };
        if rank == Rank::BEST {
            return Some(number);
        }
        if lowest.is_none_or(|(low, _)| rank < low) {
            lowest = Some((rank, number));
        }
    }
    lowest.map(|(_, number)| number)
}

fn hash(client: IpAddr) -> usize {
    let hash = match client {
        IpAddr::V4(ip) => maglev::hash(&ip.octets()),
        IpAddr::V6(ip) => maglev::hash(&ip.octets()),
    };
    hash as usize
}

#[cfg(test)]
mod tests;
