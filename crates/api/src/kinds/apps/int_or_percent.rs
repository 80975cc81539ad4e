//! A number of replicas, or a share of them.

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};

/// `3` or `25%`, as in `maxSurge` and `maxUnavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// So many.
    Int(i64),
    /// So many of a hundred.
    Percent(i64),
}

impl IntOrPercent {
    /// Reads a value; `None` if it is neither a number nor a text of digits and `%`.
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

    /// How many that are of `total`, where a part of one counts as one.
    pub fn of_rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => percent.saturating_mul(total).saturating_add(99) / 100,
        }
    }

    /// How many that are of `total`, where a part of one counts for nothing.
    pub fn of_rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Percent(percent) => percent.saturating_mul(total) / 100,
        }
    }

    /// Whether it says nothing, whatever it is a share of.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Int(0) | Self::Percent(0))
    }
}

/// Refuses what is neither a number of at least 0 nor a percentage.
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
