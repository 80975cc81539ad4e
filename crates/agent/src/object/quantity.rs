//! Resource quantities such as `500m` or `128Mi`. Pure.

/// Amount in thousandths of its unit, which is a core or a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    thousandths: u128,
}

/// Suffixes with factor and divisor.
const SUFFIXES: [(&str, u128, u128); 14] = [
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
];
/// Maximum number of digits after the point that are read; further ones are below any measurable amount.
const FRACTION_DIGITS_MAX: usize = 9;
/// Digits before the point: far more than any host has of a resource.
const WHOLE_DIGITS_MAX: usize = 18;

impl Quantity {
    /// Returns an amount of whole units.
    pub fn whole(units: u64) -> Self {
        Self {
            thousandths: u128::from(units) * 1000,
        }
    }

    /// Parses a quantity, rounded up to thousandths; `None` for an invalid or negative one.
    ///
    /// ```
    /// use agent::object::quantity::Quantity;
    ///
    /// assert_eq!(Quantity::parse("128Mi").map(Quantity::units), Some(128 << 20));
    /// assert_eq!(Quantity::parse("500m").map(Quantity::thousandths), Some(500));
    /// assert_eq!(Quantity::parse("-1"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (number, factor, divisor) = SUFFIXES
            .iter()
            .find_map(|(suffix, factor, divisor)| Some((text.strip_suffix(suffix)?, *factor, *divisor)))
            .or_else(|| exponent(text))
            .unwrap_or((text, 1, 1));
        let number = number.strip_prefix('+').unwrap_or(number);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.get(..FRACTION_DIGITS_MAX).unwrap_or(fraction);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        if !has_digits || whole.len() > WHOLE_DIGITS_MAX || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let digits: u128 = format!("0{whole}{fraction}").parse().ok()?;
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        let thousandths = digits.checked_mul(factor)?.checked_mul(1000)?;
        Some(Self {
            thousandths: thousandths.div_ceil(scale * divisor),
        })
    }

    /// Returns the amount in thousandths of the unit, saturating.
    pub fn thousandths(self) -> u64 {
        u64::try_from(self.thousandths).unwrap_or(u64::MAX)
    }

    /// Returns the amount in whole units, rounded up, saturating.
    pub fn units(self) -> u64 {
        u64::try_from(self.thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Returns the amount divided by `divisor`, rounded up; `None` for a divisor of zero.
    pub fn divided_by(self, divisor: Self) -> Option<u128> {
        (divisor.thousandths > 0).then(|| self.thousandths.div_ceil(divisor.thousandths))
    }
}

/// Splits `12e3` into the number, a factor and a divisor.
fn exponent(text: &str) -> Option<(&str, u128, u128)> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let power = 10_u128
        .checked_pow(exponent.unsigned_abs())
        .filter(|power| *power <= 10_u128.pow(18))?;
    Some(if exponent < 0 {
        (number, 1, power)
    } else {
        (number, power, 1)
    })
}

#[cfg(test)]
mod tests;
