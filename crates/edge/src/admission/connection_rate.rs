//! Rates of new connections of each client. Pure: times are durations since a fixed epoch.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Clients of a Service in the table. A client stays for [`WINDOW`] after its last connection. Further clients are not
/// counted: a limit for one client has no effect against so many clients.
const CLIENTS_MAX: usize = 65_536;
/// Period over which rates are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// New connections of each client.
#[derive(Debug, Default)]
pub(super) struct ConnectionRates {
    clients: HashMap<IpAddr, TokenBucket>,
    next_removal: Duration,
}

/// Token bucket of a client. It fills at the allowed rate, up to the tokens of one second.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    connections: f64,
    at: Duration,
}

impl ConnectionRates {
    /// Counts a connection of a client. Returns true if it stays within `per_second`; 0 means no limit.
    pub(super) fn admit(&mut self, client: IpAddr, per_second: u32, now: Duration) -> bool {
        if per_second == 0 {
            return true;
        }
        let full = f64::from(per_second);
        if !self.clients.contains_key(&client) && !self.has_room(now) {
            return true;
        }
        let allowance = self.clients.entry(client).or_insert(TokenBucket {
            connections: full,
            at: now,
        });
        let since = now.saturating_sub(allowance.at).as_secs_f64();
        let connections = (allowance.connections + since * full).min(full);
        let is_admitted = connections >= 1.0;
        *allowance = TokenBucket {
            connections: connections - f64::from(u8::from(is_admitted)),
            at: now,
        };
        is_admitted
    }

    /// Returns true if the table has room for one more client. Idle clients are removed from a full table at most
    /// once per window.
    fn has_room(&mut self, now: Duration) -> bool {
        if self.clients.len() >= CLIENTS_MAX && now >= self.next_removal {
            self.next_removal = now + WINDOW;
            self.clients
                .retain(|_, allowance| now.saturating_sub(allowance.at) < WINDOW);
        }
        self.clients.len() < CLIENTS_MAX
    }
}

#[cfg(test)]
mod tests;
