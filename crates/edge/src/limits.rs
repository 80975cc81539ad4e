//! Bounds on what clients may have. Pure; times are durations since any moment that stays the same.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Clients whose rates a Service remembers. Each is remembered for [`WINDOW`] after its last connection; when there are
/// more, newcomers are not counted: no bound on one client's rate helps against so many.
const CLIENTS_MAX: usize = 65_536;
/// What rates are counted over.
const WINDOW: Duration = Duration::from_secs(1);

/// New connections of each client.
#[derive(Debug, Default)]
pub struct Rates {
    clients: HashMap<IpAddr, Allowance>,
    search_at: Duration,
}

/// What a client may still take: it fills up at the rate that is allowed, to one second's worth.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    connections: f64,
    at: Duration,
}

impl Rates {
    /// Whether a client that makes a connection now stays within `per_second`; 0 is no bound.
    pub fn admit(&mut self, client: IpAddr, per_second: u32, now: Duration) -> bool {
        if per_second == 0 {
            return true;
        }
        let full = f64::from(per_second);
        if !self.clients.contains_key(&client) && !self.has_room(now) {
            return true;
        }
        let allowance = self.clients.entry(client).or_insert(Allowance {
            connections: full,
            at: now,
        });
        let since = now.saturating_sub(allowance.at).as_secs_f64();
        let connections = (allowance.connections + since * full).min(full);
        let is_admitted = connections >= 1.0;
        *allowance = Allowance {
            connections: connections - f64::from(u8::from(is_admitted)),
            at: now,
        };
        is_admitted
    }

    /// Whether one more client can be remembered. A full table is searched at most once a window.
    fn has_room(&mut self, now: Duration) -> bool {
        if self.clients.len() >= CLIENTS_MAX && now >= self.search_at {
            self.search_at = now + WINDOW;
            self.clients
                .retain(|_, allowance| now.saturating_sub(allowance.at) < WINDOW);
        }
        self.clients.len() < CLIENTS_MAX
    }
}

#[cfg(test)]
mod tests;
