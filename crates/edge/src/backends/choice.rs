//! Which backend takes a new connection or request. Pure: how backends are is asked by number.

use std::net::{IpAddr, SocketAddr};

use crate::settings::Balance;

/// How a backend is, as far as the choice is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How good it is to choose it.
    pub rank: Rank,
    /// Connections and requests under way.
    pub under_way: usize,
}

/// How good it is to choose a backend; the lower, the better. Only those of the lowest rank that there is are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u8);

/// What makes a backend's rank.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its endpoint is ready.
    pub is_ready: bool,
    /// Its endpoint serves though it terminates.
    pub is_serving_while_terminating: bool,
    /// Health checks say so, or there are none.
    pub is_healthy: bool,
    /// It failed again and again, and is left in peace for a while.
    pub is_ejected: bool,
    /// It is in a zone that comes first.
    pub is_near: bool,
}

impl Rank {
    /// The best there is.
    pub const BEST: Self = Self(0);
    /// The first rank of those that are chosen for want of a good one.
    const IN_NEED: Self = Self(2);

    /// The rank of a backend; none if it takes nothing at all. Ready ones that work come first, those of near zones before
    /// others. Then those that terminate and still serve (KEP-1669). When there is no other, ejected ones are tried again, and
    /// at last those whose checks fail: a check that fails for all is more likely to be wrong than all of them to be dead.
    pub fn of(condition: Condition) -> Option<Self> {
        let Condition {
            is_ready,
            is_serving_while_terminating,
            is_healthy,
            is_ejected,
            is_near,
        } = condition;
        let level = match (is_ready, is_healthy, is_ejected) {
            (false, ..) if !is_serving_while_terminating => return None,
            (true, true, false) => 0,
            (false, true, false) => 1,
            (_, true, true) => 2,
            (true, false, _) => 3,
            (false, false, _) => 4,
        };
        Some(Self(level * 2 + u8::from(!is_near)))
    }

    /// Whether it is one that is ready and works, near or far.
    pub fn is_good(self) -> bool {
        self < Self::IN_NEED
    }
}

/// The state of the choice among the backends of a port.
#[derive(Debug, Default)]
pub struct Choice {
    balance: Balance,
    /// Whose turn it is.
    turn: usize,
    /// Maglev's table: numbers of backends.
    places: Vec<usize>,
}

impl Choice {
    /// Takes over how to choose, and among whom; whose turn it is stays.
    pub fn set(&mut self, balance: Balance, addresses: &[SocketAddr]) {
        self.balance = balance;
        self.places = match balance {
            Balance::Maglev => maglev::lookup_table((0..addresses.len()).collect(), |number| {
                let address = addresses.get(*number).map(ToString::to_string);
                address.unwrap_or_default().into_bytes()
            }),
            Balance::RoundRobin | Balance::LeastConnections => Vec::new(),
        };
    }

    /// Chooses one of `count` backends, whose standings are asked by number; those without one are passed over.
    pub fn choose(
        &mut self,
        client: IpAddr,
        count: usize,
        standing: impl Fn(usize) -> Option<Standing>,
    ) -> Option<usize> {
        let from = self.turn % count.max(1);
        let by_turns = (from..count).chain(0..from);
        let chosen = match self.balance {
            Balance::RoundRobin => first_of_lowest_rank(by_turns, &standing)?,
            Balance::LeastConnections => by_turns
                .filter_map(|number| {
                    standing(number).map(|standing| ((standing.rank, standing.under_way), number))
                })
                .min_by_key(|(key, _)| *key)
                .map(|(_, number)| number)?,
            Balance::Maglev => {
                let from = place(client) % self.places.len().max(1);
                let (before, behind) = self.places.split_at_checked(from)?;
                let by_wish = behind.iter().chain(before).copied();
                // Who got no place, since there are more backends than places, is found by turns.
                first_of_lowest_rank(by_wish.chain(by_turns), &standing)?
            }
        };
        self.turn = chosen + 1;
        Some(chosen)
    }
}

fn first_of_lowest_rank(
    numbers: impl Iterator<Item = usize>,
    standing: impl Fn(usize) -> Option<Standing>,
) -> Option<usize> {
    let mut lowest: Option<(Rank, usize)> = None;
    for number in numbers {
        let Some(Standing { rank, .. }) = standing(number) else {
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

fn place(client: IpAddr) -> usize {
    let hash = match client {
        IpAddr::V4(ip) => maglev::hash(&ip.octets()),
        IpAddr::V6(ip) => maglev::hash(&ip.octets()),
    };
    hash as usize
}

#[cfg(test)]
mod tests;
