//! Maximum age of connections, with a random part.

use std::future::Future;

use tokio::time::{Duration, Instant, sleep_until};

use crate::settings::Policy;

/// Smallest share of the maximum age at which a connection ends, in percent.
const SHARE_PERCENT_MIN: u32 = 90;

/// Returns the end of a connection that begins now.
pub(crate) fn end_of_age(policy: &Policy) -> Option<Instant> {
    let share_permille = fastrand::u32(SHARE_PERCENT_MIN * 10..=1_000);
    Instant::now().checked_add(share(policy.connection_age_max?, share_permille))
}

/// Completes at a time; never without one.
pub(crate) async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Runs a part of a connection that begins now. Returns `None` if the connection reaches its maximum age before.
pub(crate) async fn until_end_of_age<T>(policy: &Policy, part: impl Future<Output = T>) -> Option<T> {
    let ends_at = end_of_age(policy);
    if ends_at.is_none() {
        return Some(part.await);
    }
    tokio::select! {
        result = part => Some(result),
        () = wait_until(ends_at) => None,
    }
}

fn share(age: Duration, permille: u32) -> Duration {
    (age / 1_000).saturating_mul(permille)
}

#[cfg(test)]
mod tests;
