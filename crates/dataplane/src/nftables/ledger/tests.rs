use super::*;

fn started(state: u32) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.start(Generation(state));
    ledger
}

#[test]
fn nothing_is_accounted_for_before_the_start_and_after_a_loss() {
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
fn every_transaction_counts_whosever_it_is_and_in_whatever_order_it_is_told() {
    let mut ledger = started(7);
    assert!(ledger.accounts_for(Generation(7)));
    ledger.record_own();
    assert!(!ledger.accounts_for(Generation(7)));
    assert!(ledger.accounts_for(Generation(8)));
    // Another's comes in between; it is told after the next of ours.
    ledger.record_own();
    assert!(!ledger.accounts_for(Generation(10)));
    ledger.record_external(Generation(9));
    assert!(ledger.accounts_for(Generation(10)));
    assert!(!ledger.accounts_for(Generation(11)), "one was not told");
}

#[test]
fn what_was_done_before_the_start_does_not_count() {
    let mut ledger = started(7);
    ledger.record_external(Generation(6));
    ledger.record_external(Generation(7));
    assert!(ledger.accounts_for(Generation(7)));
    assert!(!ledger.accounts_for(Generation(8)));
}

#[test]
fn where_the_counter_comes_around_everything_is_read_back_once() {
    let mut ledger = started(u32::MAX);
    ledger.record_own();
    // The kernel leaves out zero.
    assert!(!ledger.accounts_for(Generation(1)));
    ledger.record_external(Generation(2));
    assert!(!ledger.accounts_for(Generation(2)));
}
