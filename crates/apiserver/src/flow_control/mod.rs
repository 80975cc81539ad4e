//! How much one user may ask for, and how much is done at a time: more is answered with 429 and a time to wait.
//!
//! The privileged group and the health checks are never limited, and watches are only counted against their user's
//! rate: they last.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::authentication::Identity;
use crate::failure::Failure;

/// Users whose rate is kept; when there are more, those that ask for little are forgotten.
const USERS_MAX: usize = 10_000;
/// A user may ask for this many seconds' worth of requests at once, after a pause.
const BURST_SECONDS: f64 = 2.0;

/// The limits; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Reads that are answered at a time.
    pub reads_at_a_time: u32,
    /// Writes that are carried out at a time.
    pub writes_at_a_time: u32,
    /// Requests of one user in a second.
    pub per_user_per_second: u32,
}

impl Default for RequestLimits {
    /// Upstream's numbers; the rate is above what controllers of a large cluster need, and below what one client can
    /// do.
    fn default() -> RequestLimits {
        RequestLimits {
            reads_at_a_time: 400,
            writes_at_a_time: 200,
            per_user_per_second: 4000,
        }
    }
}

/// How long a request keeps others waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// For the time of a look.
    Read,
    /// For the time of a commit.
    Write,
    /// It lasts, and waits most of the time.
    Watch,
}

/// Lets requests in.
pub(crate) struct FlowControl {
    limits: RequestLimits,
    reads: Semaphore,
    writes: Semaphore,
    users: Mutex<HashMap<String, Allowance>>,
}

/// What a user may still ask for.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    requests: f64,
    at: Instant,
}

impl FlowControl {
    pub(crate) fn new(limits: RequestLimits) -> FlowControl {
        FlowControl {
            limits,
            reads: Semaphore::new(limits.reads_at_a_time as usize),
            writes: Semaphore::new(limits.writes_at_a_time as usize),
            users: Mutex::default(),
        }
    }

    /// Lets a request in as long as the result is held, or says that there are too many.
    pub(crate) fn enter(
        &self,
        requester: &Identity,
        load: Load,
        now: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        if requester.is_privileged() {
            return Ok(None);
        }
        if self.limits.per_user_per_second > 0 && !self.takes_one(&requester.user, now) {
            return Err(Failure::too_many_requests());
        }
        let places = match load {
            Load::Read if self.limits.reads_at_a_time > 0 => &self.reads,
            Load::Write if self.limits.writes_at_a_time > 0 => &self.writes,
            _ => return Ok(None),
        };
        places
            .try_acquire()
            .map(Some)
            .map_err(|_| Failure::too_many_requests())
    }

    fn takes_one(&self, user: &str, now: Instant) -> bool {
        let per_second = f64::from(self.limits.per_user_per_second);
        let most = per_second * BURST_SECONDS;
        let grown = |allowance: &Allowance| {
            let seconds = now.saturating_duration_since(allowance.at).as_secs_f64();
            (allowance.requests + seconds * per_second).min(most)
        };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !users.contains_key(user) {
            if users.len() >= USERS_MAX {
                users.retain(|_, allowance| grown(allowance) < most);
            }
            if users.len() >= USERS_MAX {
                users.clear();
            }
            let full = Allowance {
                requests: most,
                at: now,
            };
            users.insert(user.to_owned(), full);
        }
        let Some(allowance) = users.get_mut(user) else {
            return true;
        };
        let requests = grown(allowance);
        allowance.at = now;
        let takes = requests >= 1.0;
        allowance.requests = if takes { requests - 1.0 } else { requests };
        takes
    }
}

#[cfg(test)]
mod tests;
