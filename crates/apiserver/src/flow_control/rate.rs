//! Rate of requests of each user: a bucket that fills with time.

use std::collections::HashMap;
use std::time::Instant;

use super::UserKey;

/// Users whose rate is kept; when there are more, those that ask for little are forgotten. An entry has some 32 bytes.
pub(super) const USERS_MAX: usize = 10_000;
/// A user may ask for this many seconds' worth of requests at once, after a pause.
const BURST_SECONDS: f64 = 2.0;

/// What each user may still ask for.
#[derive(Debug)]
pub(super) struct Rates {
    /// 0 for no limit.
    per_second: u32,
    users: HashMap<UserKey, Allowance>,
}

#[derive(Clone, Copy, Debug)]
struct Allowance {
    requests: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(per_second: u32) -> Rates {
        Rates {
            per_second,
            users: HashMap::new(),
        }
    }

    /// Whether a user may make one more request; counts it if so.
    pub(super) fn take_one(&mut self, user: UserKey, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let per_second = f64::from(self.per_second);
        let most = per_second * BURST_SECONDS;
        let grown = |allowance: &Allowance| {
            let seconds = now.saturating_duration_since(allowance.at).as_secs_f64();
            (allowance.requests + seconds * per_second).min(most)
        };
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&user) {
            self.users.retain(|_, allowance| grown(allowance) < most);
            if self.users.len() >= USERS_MAX {
                self.users.clear();
            }
        }
        let full = Allowance {
            requests: most,
            at: now,
        };
        let allowance = self.users.entry(user).or_insert(full);
        let requests = grown(allowance);
        let takes = requests >= 1.0;
        *allowance = Allowance {
            requests: if takes { requests - 1.0 } else { requests },
            at: now,
        };
        takes
    }
}

#[cfg(test)]
mod tests;
