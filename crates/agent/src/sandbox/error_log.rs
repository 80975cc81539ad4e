//! Error log of a sandbox: its standard error, with a bounded size. On a full disk, every line of a container causes an
//! error.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(test)]
mod tests;

/// Maximum number of bytes that a sandbox writes in total. The next sandbox of the Pod truncates the file.
const BYTES_MAX: usize = 64 << 10;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Writes an error as long as the log has room.
pub(super) fn log_error(error: Arguments<'_>) {
    if let Some(line) = line_within_limit(&BYTES, &format!("sandbox: {error}")) {
        eprintln!("{line}");
    }
}

/// Returns the line to write in place of `line`, if any.
fn line_within_limit<'a>(written: &AtomicUsize, line: &'a str) -> Option<&'a str> {
    let before = written.fetch_add(line.len() + 1, Ordering::Relaxed);
    match before + line.len() < BYTES_MAX {
        true => Some(line),
        // A notice replaces the first line that does not fit. The count then stays at the limit.
        false if before < BYTES_MAX => {
            written.store(BYTES_MAX, Ordering::Relaxed);
            Some("sandbox: log full, further errors are not written")
        }
        false => {
            written.store(BYTES_MAX, Ordering::Relaxed);
            None
        }
    }
}
