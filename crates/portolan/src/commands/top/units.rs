//! Texts of rates and bytes, with units.

/// Returns a rate of events, such as `0.5/s` or `1.2k/s`.
pub(crate) fn rate_text(per_second: f64) -> String {
    match per_second {
        0.0 => "0/s".to_owned(),
        _ if per_second < 9.95 => format!("{per_second:.1}/s"),
        _ if per_second < 9_999.5 => format!("{per_second:.0}/s"),
        _ if per_second < 9_999_500.0 => format!("{:.1}k/s", per_second / 1e3),
        _ => format!("{:.1}M/s", per_second / 1e6),
    }
}

/// Returns a rate of bytes, such as `1.2KiB/s`; `-` if it is unknown.
pub(crate) fn byte_rate_text(per_second: Option<f64>) -> String {
    per_second.map_or_else(unknown_value, |per_second| {
        format!("{}/s", with_binary_unit(per_second))
    })
}

/// Returns a number of bytes, such as `1.2KiB`; `-` if it is unknown.
pub(crate) fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(unknown_value, |bytes| with_binary_unit(bytes as f64))
}

fn unknown_value() -> String {
    "-".to_owned()
}

fn with_binary_unit(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes.max(0.0), 0);
    while value >= 1_023.95 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value:.0}B")
    } else {
        format!("{value:.1}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests;
