//! Tests of the table of checks.

use crate::kinds::pod_security::checks::CHECKS;

#[test]
fn lists_checks_in_the_order_of_messages() {
    let order: Vec<_> = CHECKS.iter().map(|check| (check.level, check.id)).collect();
    let mut sorted = order.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(order, sorted);
}

#[test]
fn lists_revisions_in_ascending_order() {
    for check in CHECKS {
        let versions: Vec<_> = check
            .revisions
            .iter()
            .map(|revision| revision.since_minor)
            .collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{}", check.id);
    }
}

#[test]
fn overrides_only_baseline_checks_that_exist() {
    for check in CHECKS {
        for id in check.revisions.iter().flat_map(|revision| revision.overrides) {
            let overridden = CHECKS
                .iter()
                .find(|other| other.id == *id)
                .expect("overridden check");
            assert!(overridden.level < check.level, "{} overrides {id}", check.id);
        }
    }
}
