//! Timestamps as ages, such as `5m20s` or `8d`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::machinery::tree;

/// Age of an unset timestamp.
const UNKNOWN: &str = "<unknown>";

/// Returns the age of an object.
pub(super) fn of(object: &Value, now: Timestamp) -> Value {
    since(tree::text(&object["metadata"], "creationTimestamp"), now).into()
}

/// Returns the time since an RFC 3339 timestamp.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.duration_since(time)),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// Formats a duration in at most two units: `45s`, `3m20s`, `5h10m`, `8d`, `2y30d`. Up to two seconds in the future
/// are zero, because clocks differ.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two_units(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two_units(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two_units(days, 'd', hours % 24, 'h'),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two_units(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

/// Formats two units; a second unit of zero is omitted.
fn two_units(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}
