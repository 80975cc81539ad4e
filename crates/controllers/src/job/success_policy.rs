//! Success policy of an Indexed Job (upstream's `success_policy.go`).

use std::collections::BTreeSet;

use api::object::Job;
use api::tree::{is_set, items, number, text};
use serde_json::Value;

use super::pods::{is_indexed, parse_ranges};

/// Returns the position of the first rule that the succeeded indexes meet.
pub(super) fn met_rule(job: &Job, succeeded: &BTreeSet<i64>) -> Option<usize> {
    if !is_indexed(job) || succeeded.is_empty() {
        return None;
    }
    let completions = job.spec.completions.unwrap_or(0);
    let mut rules = items(&job.spec.success_policy, "rules").iter();
    rules.position(|rule| is_met(rule, completions, succeeded))
}

/// A rule with indexes needs all of them, or `succeededCount` of them. A rule without indexes counts all.
fn is_met(rule: &Value, completions: i64, succeeded: &BTreeSet<i64>) -> bool {
    const COUNT: &str = "succeededCount";
    let suffice =
        |found: usize| is_set(rule, COUNT) && i64::try_from(found).unwrap_or(i64::MAX) >= number(rule, COUNT);
    if !is_set(rule, "succeededIndexes") {
        return suffice(succeeded.len());
    }
    let (mut needed, mut found) = (0, 0);
    for range in parse_ranges(text(rule, "succeededIndexes"), completions) {
        needed += range.end - range.start;
        found += succeeded.range(range).count();
    }
    let has_all = i64::try_from(found).is_ok_and(|found| found == needed);
    needed > 0 && (has_all || suffice(found))
}
