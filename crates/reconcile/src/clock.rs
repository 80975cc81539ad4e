//! The clock of the runtime, which tests pause and advance.

use std::time::Instant;

/// Returns the current time of the runtime's clock.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Sleeps until `deadline`; never returns without a deadline.
pub async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
