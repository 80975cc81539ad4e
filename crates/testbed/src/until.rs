//! Waiting for what has to happen.

use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Looks again and again until something is so, and hands it out.
///
/// # Panics
/// When it is not within `patience`; the message says `what` was awaited.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {patience:?}");
        thread::sleep(LOOK_PERIOD);
    }
}
