//! Validation of `successPolicy` (KEP-3998).

use serde_json::Value;

use crate::kinds::apps::validate_not_negative;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, is_set, items, number, text};

const FIELD: &str = "successPolicy";
const RULES_MAX: usize = 20;
/// Maximum number of bytes of the indexes of one rule.
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// Validates the policy of a Job.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if !is_set(spec, FIELD) {
        return;
    }
    let (policy, path) = (child(spec, FIELD), path.child(FIELD));
    if text(spec, "completionMode") != "Indexed" {
        let fault = "requires indexed completion mode";
        errors.push(FieldError::invalid(&path, policy.clone(), fault));
        return;
    }
    let (rules, path) = (items(policy, "rules"), path.child("rules"));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&path, detail));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&path, rules.len(), RULES_MAX));
    }
    let completions = number(spec, "completions");
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(errors, rule, completions, &path.index(index));
    }
}

fn validate_rule(errors: &mut FieldErrors, rule: &Value, completions: i64, path: &Path) {
    const COUNT: &str = "succeededCount";
    const INDEXES: &str = "succeededIndexes";
    let (has_count, has_indexes) = (is_set(rule, COUNT), is_set(rule, INDEXES));
    if !has_count && !has_indexes {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut total = 0;
    if has_indexes {
        let (indexes, path) = (text(rule, INDEXES), path.child(INDEXES));
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(&path, INDEXES_BYTES_MAX));
        }
        match count_indexes(indexes, completions) {
            Ok(found) => total = found,
            Err(fault) => {
                let fault = format!("error parsing succeededIndexes: {fault}");
                errors.push(FieldError::invalid(&path, indexes, fault));
            }
        }
    }
    if !has_count {
        return;
    }
    validate_not_negative(errors, rule, &[COUNT], path);
    let (count, path) = (number(rule, COUNT), path.child(COUNT));
    if count > completions {
        let fault =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&path, count, fault));
    }
    if has_indexes && count > total {
        let fault = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&path, count, fault));
    }
}

/// Fault of a text of indexes, in upstream's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexesError {
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order { previous: i64, current: i64 },
    #[error("too large index: {0:?}")]
    TooLarge(String),
    #[error("cannot convert string to integer for index: {0:?}")]
    NotANumber(String),
    #[error(
        "the fragment {0:?} violates the requirement that an index interval can have at most two parts separated by '-'"
    )]
    Parts(String),
}

/// Returns the number of indexes in a text such as `1,3-5`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, IndexesError> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut total = 0;
    for interval in text.split(',') {
        let (current, end) = parse_interval(interval, completions)?;
        if let Some(previous) = last.filter(|last| *last >= current) {
            return Err(IndexesError::Order { previous, current });
        }
        total += end - current + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first and the last index of an interval such as `3-5`.
pub(super) fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), IndexesError> {
    let parse = |part: &str| match part.parse::<i64>() {
        Ok(index) if index >= completions => Err(IndexesError::TooLarge(part.to_owned())),
        Ok(index) => Ok(index),
        Err(_) => Err(IndexesError::NotANumber(part.to_owned())),
    };
    let parts: Vec<&str> = interval.split('-').collect();
    match parts[..] {
        [index] => parse(index).map(|index| (index, index)),
        [previous, current] => {
            let (previous, current) = (parse(previous)?, parse(current)?);
            if previous >= current {
                return Err(IndexesError::Order { previous, current });
            }
            Ok((previous, current))
        }
        _ => Err(IndexesError::Parts(interval.to_owned())),
    }
}
