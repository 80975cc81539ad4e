//! Quantities of CPU time and memory in upstream's canonical form.

/// Suffixes of CPU quantities with their nanocores, the largest first.
const CPU_UNITS: [(&str, u128); 4] = [("", 1_000_000_000), ("m", 1_000_000), ("u", 1_000), ("n", 1)];

/// Suffixes of memory quantities with their bytes, the largest first.
const MEMORY_UNITS: [(&str, u128); 5] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("", 1),
];

/// Formats nanocores: `250m`, `1234567n`.
pub(crate) fn cpu_text(nanocores: u128) -> String {
    text_in(&CPU_UNITS, nanocores)
}

/// Formats bytes: `3200Ki`.
pub(crate) fn memory_text(bytes: u128) -> String {
    text_in(&MEMORY_UNITS, bytes)
}

/// Parses the text of [`cpu_text`]; 0 for other text.
pub(crate) fn nanocores(text: &str) -> u128 {
    parse_in(&CPU_UNITS, text)
}

/// Adds memory quantities, and formats the sum.
pub(crate) fn sum_of<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let bytes = texts.map(|text| parse_in(&MEMORY_UNITS, text));
    memory_text(bytes.fold(0, u128::saturating_add))
}

/// Formats a value in the largest unit of which it is a multiple.
fn text_in(units: &[(&str, u128)], value: u128) -> String {
    let fitting = units
        .iter()
        .find(|(_, size)| value != 0 && value.is_multiple_of(*size));
    match fitting {
        Some((suffix, size)) => format!("{}{suffix}", value / size),
        None => "0".to_owned(),
    }
}

fn parse_in(units: &[(&str, u128)], text: &str) -> u128 {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let suffix = text.get(digits.len()..).unwrap_or_default();
    let unit = units.iter().find(|(name, _)| *name == suffix);
    let value = unit.and_then(|(_, size)| digits.parse::<u128>().ok()?.checked_mul(*size));
    value.unwrap_or(0)
}
