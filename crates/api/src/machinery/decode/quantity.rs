//! Resource quantities (`100m`, `1.5Gi`, `1e3`) and their canonical form.
//!
//! Kubernetes stores a quantity as a number. The canonical form has the largest suffix of the original family that
//! leaves an integer.

/// Upstream's message for a malformed quantity.
const MALFORMED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Maximum number of digits on each side of the decimal point; longer numbers exceed all bounds.
const DIGITS_MAX: usize = 40;
/// The largest quantity; larger ones are clamped, as upstream does.
const AMOUNT_MAX: i128 = i64::MAX as i128;
/// Resolution of quantities: integers of billionths. Finer quantities are rounded away from zero.
const BILLION: i128 = 1_000_000_000;

/// Family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffixes {
    /// `Ki`, `Mi` and so on.
    Binary,
    /// `m`, no suffix, `k`, `M` and so on.
    Decimal,
    /// `e3`, `e6` and so on.
    Exponent,
}

/// Returns the canonical form of a quantity.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let (is_negative, amount, suffixes) = parse(text).ok_or_else(|| MALFORMED.to_owned())?;
    let unsigned = format(amount, suffixes);
    Ok(if is_negative && amount > 0 {
        format!("-{unsigned}")
    } else {
        unsigned
    })
}

/// Parses a quantity such as `1500m` or `2Gi` into thousandths, rounded away from zero and clamped to the range of
/// `i64`. Returns `None` for malformed text.
pub fn quantity_in_thousandths(text: &str) -> Option<i64> {
    let (is_negative, billionths, _) = parse(text)?;
    let thousandths = i64::try_from(divide_rounding_up(billionths, 1_000_000)).unwrap_or(i64::MAX);
    Some(if is_negative { -thousandths } else { thousandths })
}

/// Parses a quantity into sign, billionths and suffix family.
fn parse(text: &str) -> Option<(bool, i128, Suffixes)> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || fraction.contains('.') {
        return None;
    }
    let (suffixes, ten, two) = parse_suffix(suffix)?;
    Some((is_negative, billionths(whole, fraction, ten, two), suffixes))
}

/// Parses a suffix into its family, and its powers of ten and of two.
fn parse_suffix(suffix: &str) -> Option<(Suffixes, i32, u32)> {
    let decimal = |ten| Some((Suffixes::Decimal, ten, 0));
    let binary = |two| Some((Suffixes::Binary, 0, two));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // Exponents beyond all bounds, in both directions.
            let bound = if exponent.starts_with('-') { -1000 } else { 1000 };
            let ten = || exponent.parse().unwrap_or(bound).clamp(-1000, 1000);
            is_number.then(|| (Suffixes::Exponent, ten(), 0))
        }
    }
}

/// Returns the absolute quantity in billionths, clamped to the bounds.
fn billionths(whole: &str, fraction: &str, ten: i32, two: u32) -> i128 {
    const MAX: i128 = AMOUNT_MAX * BILLION;
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return 0;
    }
    if whole.len() + fraction.len() > DIGITS_MAX || whole.len() as i64 + i64::from(ten) > DIGITS_MAX as i64 {
        return if whole.len() as i64 + i64::from(ten) > 0 {
            MAX
        } else {
            1
        };
    }
    // 38 digits fit into i128; further digits are dropped.
    let digits: String = whole.chars().chain(fraction.chars()).take(38).collect();
    let dropped = (whole.len() + fraction.len()) as i32 - digits.len() as i32;
    let mantissa: i128 = digits.parse().unwrap_or(i128::MAX);
    let exponent = ten + 9 - fraction.len() as i32 + dropped;
    let Some(mantissa) = mantissa.checked_mul(1 << two) else {
        // A binary suffix is a factor above 1000; only a very long fraction would stay below the bound.
        return MAX;
    };
    if exponent >= 0 {
        let factor = u32::try_from(exponent)
            .ok()
            .and_then(|exponent| 10_i128.checked_pow(exponent));
        return factor
            .and_then(|factor| mantissa.checked_mul(factor))
            .map_or(MAX, |amount| amount.min(MAX));
    }
    let divisor = 10_i128.checked_pow(exponent.unsigned_abs());
    divisor.map_or(1, |divisor| divide_rounding_up(mantissa, divisor).min(MAX))
}

/// Divides and rounds up.
fn divide_rounding_up(amount: i128, divisor: i128) -> i128 {
    amount / divisor + i128::from(amount % divisor != 0)
}

/// Formats billionths with a suffix of the family.
fn format(amount: i128, suffixes: Suffixes) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    match suffixes {
        Suffixes::Binary if amount >= 1024 * BILLION => {
            const NAMES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (mut number, mut index) = (divide_rounding_up(amount, BILLION), 0);
            while number % 1024 == 0 && index + 1 < NAMES.len() {
                number /= 1024;
                index += 1;
            }
            format!("{number}{}", NAMES[index])
        }
        Suffixes::Binary | Suffixes::Decimal => {
            const NAMES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
            let (number, index) = in_thousands(amount, NAMES.len());
            format!("{number}{}", NAMES[index])
        }
        Suffixes::Exponent => {
            let (number, thousands) = in_thousands(amount, usize::MAX);
            match 3 * thousands as i64 - 9 {
                0 => number.to_string(),
                exponent => format!("{number}e{exponent}"),
            }
        }
    }
}

/// Divides by a thousand while that is exact, fewer than `bound` times. Returns quotient and number of divisions.
fn in_thousands(mut amount: i128, bound: usize) -> (i128, usize) {
    let mut count = 0;
    while amount % 1000 == 0 && count + 1 < bound {
        amount /= 1000;
        count += 1;
    }
    (amount, count)
}

#[cfg(test)]
mod tests;
