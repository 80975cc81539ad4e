//! Validation of `lifecycle.stopSignal` (upstream's `validateStopSignal`). Upstream's default drops the field, and its
//! feature gate requires `spec.os.name`. Here the field has an effect, and Pods without an operating system are those
//! of Linux.

use serde_json::Value;

use crate::kinds::pod::CONTAINER_LISTS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, items, text};

/// Signals of Linux other than those in real time.
const LINUX: [&str; 34] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
/// Signals of Windows.
const WINDOWS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// Validates the stop signals of containers. They depend on the operating system of the Pod.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let system = text(child(spec, "os"), "name");
    for list in CONTAINER_LISTS {
        for (index, container) in items(spec, list).iter().enumerate() {
            let signal = text(child(container, "lifecycle"), "stopSignal");
            if signal.is_empty() {
                continue;
            }
            let path = path
                .child(list)
                .index(index)
                .child("lifecycle")
                .child("stopSignal");
            let is_windows = system == "windows";
            let is_supported = if is_windows {
                WINDOWS.contains(&signal)
            } else {
                LINUX.contains(&signal) || is_real_time(signal)
            };
            if !is_supported {
                let supported: &[&str] = if is_windows { &WINDOWS } else { &LINUX };
                errors.push(FieldError::not_supported(&path, signal, supported));
            }
        }
    }
}

/// Returns true for `SIGRTMIN` up to `SIGRTMIN+15`, and `SIGRTMAX-14` up to `SIGRTMAX`.
fn is_real_time(signal: &str) -> bool {
    let has_distance = |prefix: &str, sign: char, max: u8| {
        signal.strip_prefix(prefix).is_some_and(|rest| {
            let distance = rest
                .strip_prefix(sign)
                .and_then(|digits| digits.parse::<u8>().ok());
            let is_plain = distance.is_some_and(|distance| format!("{sign}{distance}") == rest);
            rest.is_empty() || is_plain && distance.is_some_and(|distance| (1..=max).contains(&distance))
        })
    };
    has_distance("SIGRTMIN", '+', 15) || has_distance("SIGRTMAX", '-', 14)
}
