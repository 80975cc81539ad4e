//! Waiting until a condition holds, with a timeout.

use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Polls `check` until it returns a value, and returns that.
///
/// # Panics
///
/// Panics with `subject` if there is no value within `timeout`.
pub fn wait_until<T>(subject: &str, timeout: Duration, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + timeout;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "{subject}: not within {timeout:?}");
        thread::sleep(POLL_PERIOD);
    }
}
