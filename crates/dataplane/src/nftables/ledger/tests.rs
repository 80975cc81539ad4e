use super::*;

fn started(state: u32) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.start(Generation(state));
    ledger
}

#[test]
fn ledger_explains_nothing_before_start_and_after_invalidation() {
    let mut ledger = Ledger::default();
    ledger.record_own();
    ledger.record_external(Generation(1));
    assert!(!ledger.accounts_for(Generation(0)));
    assert!(!ledger.accounts_for(Generation(1)));
    let mut ledger = started(7);
    ledger.invalidate();
    assert!(!ledger.accounts_for(Generation(7)));
}

#[test]
fn counts_transactions_in_any_order() {
    let mut ledger = started(7);
    assert!(ledger.accounts_for(Generation(7)));
    ledger.record_own();
    assert!(!ledger.accounts_for(Generation(7)));
    assert!(ledger.accounts_for(Generation(8)));
    // An external transaction in between is reported after the next own one.
    ledger.record_own();
    assert!(!ledger.accounts_for(Generation(10)));
    ledger.record_external(Generation(9));
    assert!(ledger.accounts_for(Generation(10)));
    assert!(!ledger.accounts_for(Generation(11)), "one is not reported");
}

#[test]
fn ignores_transactions_before_start() {
    let mut ledger = started(7);
    ledger.record_external(Generation(6));
    ledger.record_external(Generation(7));
    assert!(ledger.accounts_for(Generation(7)));
    assert!(!ledger.accounts_for(Generation(8)));
}

#[test]
fn counter_wrap_causes_one_verification() {
    let mut ledger = started(u32::MAX);
    ledger.record_own();
    // The kernel's counter skips zero.
    assert!(!ledger.accounts_for(Generation(1)));
    ledger.record_external(Generation(2));
    assert!(!ledger.accounts_for(Generation(2)));
}
