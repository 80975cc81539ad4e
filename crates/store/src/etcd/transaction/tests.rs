//! Transactions within etcd's limits, and answers that do not fit.

use super::*;
use crate::{HistoryLimits, Value};

fn index() -> Index {
    Index::restore(HistoryLimits::default(), Revision(0), Vec::new())
}

fn transaction(expectations: usize, writes: usize) -> Transaction {
    let key = |number: usize| Key::from(format!("/things/{number}"));
    let value = Value {
        bytes: Bytes::from_static(b"x"),
        revision_at: None,
    };
    Transaction {
        expectations: (0..expectations)
            .map(|number| (key(number), Expectation::Absent))
            .collect(),
        writes: (0..writes)
            .map(|number| Write::Put(key(number), value.clone()))
            .collect(),
    }
}

/// Returns the sum of the widest parts from the top to the deepest level, which etcd limits, and the number of
/// operations.
fn width(request: &TxnRequest) -> (usize, usize) {
    let own = request
        .compare
        .len()
        .max(request.success.len())
        .max(request.failure.len());
    let below = request.success.iter().map(|op| match &op.request {
        Some(Request::Txn(inner)) => width(inner),
        _ => (0, 1),
    });
    below.fold((own, 0), |(widest, count), (width, operations)| {
        (widest.max(own + width), count + operations)
    })
}

#[test]
fn transactions_of_any_size_keep_to_etcds_limit() {
    let (prefix, index) = (Prefix::new("/p"), index());
    for (expectations, writes) in [
        (0, 1),
        (1, 39),
        (3, 40),
        (40, 200),
        (100, 104),
        (118, 119),
        (0, 5_000),
        (9, 60_000),
    ] {
        let transaction = transaction(expectations, writes);
        let prepared = prepare(&prefix, Offset(0), &index, (&transaction, &transaction.writes), 1)
            .expect("a transaction within the limits");
        let (width, operations) = width(&prepared.request);
        assert!(width <= OPERATIONS_MAX, "{expectations}, {writes}: {width}");
        assert_eq!(operations, writes + 1, "the writes and the commit record");
    }
    for (expectations, writes) in [(121, 1), (120, 2_000)] {
        let transaction = transaction(expectations, writes);
        let refused = prepare(&prefix, Offset(0), &index, (&transaction, &transaction.writes), 1);
        assert!(
            matches!(refused, Err(CommitError::Malformed { .. })),
            "{expectations}, {writes}"
        );
    }
}

#[test]
fn keys_of_the_engine_cannot_be_written() {
    let mut transaction = transaction(0, 1);
    let value = Value {
        bytes: Bytes::new(),
        revision_at: None,
    };
    for key in [COMMIT, "things", ""] {
        transaction.writes = vec![Write::Put(key.into(), value.clone())];
        let refused = prepare(
            &Prefix::new("/p"),
            Offset(0),
            &index(),
            (&transaction, &transaction.writes),
            1,
        );
        assert!(matches!(refused, Err(CommitError::Malformed { .. })), "{key}");
    }
}

#[test]
fn mismatched_response_is_rejected() {
    let (prefix, transaction) = (Prefix::new("/p"), transaction(1, 1));
    let prepared = prepare(
        &prefix,
        Offset(0),
        &index(),
        (&transaction, &transaction.writes),
        1,
    )
    .expect("a transaction within the limits");
    let done = TxnResponse {
        succeeded: true,
        ..TxnResponse::default()
    };
    assert!(
        prepared
            .outcome(&prefix, Offset(0), &Transformation::default(), done)
            .is_none()
    );
    assert!(
        prepared
            .outcome(
                &prefix,
                Offset(0),
                &Transformation::default(),
                TxnResponse::default()
            )
            .is_none()
    );
}
