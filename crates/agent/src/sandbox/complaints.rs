//! The sandbox's own log: what it could not do. It is bounded, as a full disk makes every line of a container a reason to
//! write one.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(test)]
mod tests;

/// Bytes that a sandbox writes in all; the file begins anew with the next sandbox of the Pod.
const BYTES_MAX: usize = 64 << 10;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Writes a line, as long as there is room.
pub(super) fn complain(what: Arguments<'_>) {
    if let Some(line) = bounded(&BYTES, &format!("sandbox: {what}")) {
        eprintln!("{line}");
    }
}

/// The line that is to be written in place of `line`, if any is.
fn bounded<'a>(written: &AtomicUsize, line: &'a str) -> Option<&'a str> {
    let before = written.fetch_add(line.len() + 1, Ordering::Relaxed);
    match before + line.len() < BYTES_MAX {
        true => Some(line),
        // The first one that does not fit says so; the count stays above the bound.
        false if before < BYTES_MAX => {
            written.store(BYTES_MAX, Ordering::Relaxed);
            Some("sandbox: this log is full; no more is written to it")
        }
        false => {
            written.store(BYTES_MAX, Ordering::Relaxed);
            None
        }
    }
}
