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
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_client_has_its_rate_and_others_have_theirs() {
        let mut rates = Rates::default();
        let [one, other] = [1, 2].map(|number| IpAddr::from(Ipv4Addr::from_bits(number)));
        let at = Duration::from_millis;
        let admitted = (0..20).filter(|_| rates.admit(one, 5, at(0))).count();
        assert_eq!(admitted, 5);
        assert!(rates.admit(other, 5, at(0)));
        assert!(!rates.admit(one, 5, at(199)));
        assert!(rates.admit(one, 5, at(401)));
        assert!(rates.admit(one, 0, at(401)));
        let later = (0..20).filter(|_| rates.admit(one, 5, at(9_000))).count();
        assert_eq!(later, 5);
    }

    #[test]
    fn the_table_stays_within_its_bound_and_recovers() {
        let mut rates = Rates::default();
        let client = |number: usize| IpAddr::from(Ipv4Addr::from_bits(number as u32));
        for number in 0..CLIENTS_MAX + 1_000 {
            assert!(rates.admit(client(number), 1, Duration::from_millis(1)));
        }
        assert_eq!(rates.clients.len(), CLIENTS_MAX);
        let newcomer = client(CLIENTS_MAX + 2_000);
        assert!(rates.admit(newcomer, 1, Duration::from_secs(2)));
        assert!(!rates.admit(newcomer, 1, Duration::from_secs(2)));
    }
}
