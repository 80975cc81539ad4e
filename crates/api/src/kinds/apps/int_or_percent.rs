//! Number or percentage of replicas.

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};

/// Number or percentage: `3` or `25%`, as in `maxSurge` and `maxUnavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// Number of replicas.
    Int(i64),
    /// Percentage of the replicas.
    Percent(i64),
}

impl IntOrPercent {
    /// Reads a number or a text of digits and `%`; `None` for other values.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => {
                let digits = text.strip_suffix('%')?;
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let percent = digits.parse().ok().filter(|_| is_number)?;
                Some(Self::Percent(percent))
            }
            other => other.as_i64().map(Self::Int),
        }
    }

    /// Returns the number of replicas out of `total`, rounded up.
    pub fn of_rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => percent.saturating_mul(total).saturating_add(99) / 100,
        }
    }

    /// Returns the number of replicas out of `total`, rounded down.
    pub fn of_rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => percent.saturating_mul(total) / 100,
        }
    }

    /// Returns true if the value is 0 or 0%.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Int(0) | Self::Percent(0))
    }
}

/// Reports a value that is neither a number of at least 0 nor a percentage.
pub(super) fn validate(errors: &mut FieldErrors, value: &Value, path: &Path) {
    const FORM: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                        '93%', regex used for validation is '[0-9]+%')";
    match IntOrPercent::read(value) {
        Some(IntOrPercent::Int(number)) if number < 0 => {
            errors.push(FieldError::invalid(path, number, super::NOT_NEGATIVE));
        }
        Some(_) => {}
        None => errors.push(FieldError::invalid(path, value.clone(), FORM)),
    }
}
