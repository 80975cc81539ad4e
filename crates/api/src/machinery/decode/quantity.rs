//! Amounts of resources (`100m`, `1.5Gi`, `1e3`) and the one form in which they are given back.
//!
//! Kubernetes keeps an amount as a number and writes it anew: with the largest suffix that leaves a whole number, in
//! the family of suffixes that it came with.

/// What an amount that has no such form is told.
const FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Digits that a number may have before and behind the point; more than that is beyond every bound anyway.
const DIGITS_MAX: usize = 40;
/// The largest amount; what is larger counts as this much, as upstream has it.
const AMOUNT_MAX: i128 = i64::MAX as i128;
/// Amounts are whole numbers of billionths; what is finer is rounded away from zero.
const BILLION: i128 = 1_000_000_000;

/// The family of suffixes that an amount is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffixes {
    /// `Ki`, `Mi` …
    Binary,
    /// `m`, none, `k`, `M` …
    Decimal,
    /// `e3`, `e6` …
    Exponent,
}

/// Brings an amount into the form in which it is given back.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let (is_negative, amount, suffixes) = read(text).ok_or_else(|| FORM.to_owned())?;
    let written = written(amount, suffixes);
    Ok(match is_negative && amount > 0 {
        true => format!("-{written}"),
        false => written,
    })
}

/// An amount such as `1500m` or `2Gi` in thousandths, rounded away from zero and within the bounds of the number;
/// `None` if it is no amount.
pub fn quantity_in_thousandths(text: &str) -> Option<i64> {
    let (is_negative, billionths, _) = read(text)?;
    let thousandths = i64::try_from(divided(billionths, 1_000_000)).unwrap_or(i64::MAX);
    Some(if is_negative { -thousandths } else { thousandths })
}

/// Whether an amount is below zero, how many billionths it is otherwise, and the family of its suffix.
fn read(text: &str) -> Option<(bool, i128, Suffixes)> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || fraction.contains('.') {
        return None;
    }
    let (suffixes, ten, two) = suffix_of(suffix)?;
    Some((is_negative, billionths(whole, fraction, ten, two), suffixes))
}

/// The family of a suffix, and the powers of ten and of two that it stands for.
fn suffix_of(suffix: &str) -> Option<(Suffixes, i32, u32)> {
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
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            // Far beyond what any amount can be, in either direction.
            let bound = if exponent.starts_with('-') { -1000 } else { 1000 };
            let ten = || exponent.parse().unwrap_or(bound).clamp(-1000, 1000);
            is_number.then(|| (Suffixes::Exponent, ten(), 0))
        }
    }
}

/// The amount in billionths, within its bounds.
fn billionths(whole: &str, fraction: &str, ten: i32, two: u32) -> i128 {
    const MAX: i128 = AMOUNT_MAX * BILLION;
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return 0;
    }
    if whole.len() + fraction.len() > DIGITS_MAX || whole.len() as i64 + i64::from(ten) > DIGITS_MAX as i64 {
        return match whole.len() as i64 + i64::from(ten) > 0 {
            true => MAX,
            false => 1,
        };
    }
    // Digits fit into i128 as long as they are fewer than 39; the last ones of more do not count.
    let digits: String = whole.chars().chain(fraction.chars()).take(38).collect();
    let dropped = (whole.len() + fraction.len()) as i32 - digits.len() as i32;
    let mantissa: i128 = digits.parse().unwrap_or(i128::MAX);
    let exponent = ten + 9 - fraction.len() as i32 + dropped;
    let Some(mantissa) = mantissa.checked_mul(1 << two) else {
        // A binary suffix is a factor of ten digits and more: only a fraction so long stays below the bound.
        return MAX;
    };
    if exponent >= 0 {
        let factor = u32::try_from(exponent).ok().and_then(|e| 10_i128.checked_pow(e));
        return factor
            .and_then(|factor| mantissa.checked_mul(factor))
            .map_or(MAX, |amount| amount.min(MAX));
    }
    let divisor = 10_i128.checked_pow(exponent.unsigned_abs());
    divisor.map_or(1, |divisor| divided(mantissa, divisor).min(MAX))
}

/// Rounded up.
fn divided(amount: i128, by: i128) -> i128 {
    amount / by + i128::from(amount % by != 0)
}

/// Writes an amount of billionths.
fn written(amount: i128, suffixes: Suffixes) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    match suffixes {
        Suffixes::Binary if amount >= 1024 * BILLION => {
            const NAMES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (mut number, mut at) = (divided(amount, BILLION), 0);
            while number % 1024 == 0 && at + 1 < NAMES.len() {
                number /= 1024;
                at += 1;
            }
            format!("{number}{}", NAMES[at])
        }
        Suffixes::Binary | Suffixes::Decimal => {
            const NAMES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
            let (number, at) = in_thousands(amount, NAMES.len());
            format!("{number}{}", NAMES[at])
        }
        Suffixes::Exponent => {
            let (number, at) = in_thousands(amount, usize::MAX);
            match 3 * at as i64 - 9 {
                0 => number.to_string(),
                exponent => format!("{number}e{exponent}"),
            }
        }
    }
}

/// The amount without its factors of a thousand, and how many they were; fewer than `bound`.
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
