//! Conversion of a transaction to one of etcd's, and of its response. Pure.

use std::collections::HashSet;

use bytes::Bytes;

use super::layout::{COMMIT, CommitRecord, Offset, Prefix, encode_value, is_object, parse_stored};
use super::wire::{
    Compare, Comparison, DeleteRangeRequest, KeyValue, Operand, PutRequest, RangeRequest, Request, RequestOp,
    Response, Target, TxnRequest, TxnResponse,
};
use crate::group::check_keys_unique;
use crate::{CommitError, Entry, Expectation, Index, Key, Revision, Transaction, Transformation, Write};

/// etcd's default `--max-txn-ops`: limit for the widest part of a transaction together with those of its nested
/// transactions.
const OPERATIONS_MAX: usize = 128;
/// Operations per level of a nested transaction. Three such levels and a fourth of eight operations are possible,
/// which makes half a million operations.
const FANOUT: usize = 40;
/// Limit of expectations, which leaves room for a level of operations.
const EXPECTATIONS_MAX: usize = 120;

/// A transaction that is ready to be sent.
#[derive(Debug)]
pub(super) struct PreparedTransaction<'t> {
    pub(super) request: TxnRequest,
    transaction: &'t Transaction,
    has_effect: bool,
}

/// Result of a transaction.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The transaction was committed, or only checked because it has no effect. The index must reach this revision.
    Committed(Revision),
    /// An expectation does not hold. The index contains the reason once it has reached `newest`.
    Conflict {
        newest: Revision,
        key: Key,
        current: Option<Entry>,
    },
    /// The prediction of the transaction's effect was wrong, because the index was outdated. The transaction must be
    /// prepared again when the index has reached `newest`.
    StaleIndex { newest: Revision },
}

/// Converts a transaction, with its writes in their stored form, to one of etcd's. The index serves only to predict
/// whether deletions have an effect; the prediction becomes a comparison too.
pub(super) fn prepare<'t>(
    prefix: &Prefix,
    offset: Offset,
    index: &Index,
    (transaction, stored): (&'t Transaction, &[Write]),
    mark: u64,
) -> Result<PreparedTransaction<'t>, CommitError> {
    check(transaction)?;
    let mut compare: Vec<Compare> = transaction
        .expectations
        .iter()
        .map(|(key, expectation)| comparison(prefix, offset, key, *expectation))
        .collect();
    let has_effect = predict_effect(prefix, index, transaction, &mut compare);
    if compare.len() > EXPECTATIONS_MAX {
        return Err(malformed(
            transaction,
            "it has more expectations than etcd accepts",
        ));
    }
    let success = if has_effect {
        let mut operations = vec![put(prefix.key(COMMIT), record(stored, mark).encode())];
        operations.extend(stored.iter().map(|write| operation(prefix, write)));
        nest(operations, compare.len())
            .ok_or_else(|| malformed(transaction, "it has more writes than etcd accepts"))?
    } else {
        vec![get(prefix, COMMIT)]
    };
    let checked_keys: HashSet<&Key> = transaction.expectations.iter().map(|(key, _)| key).collect();
    let mut failure = vec![get(prefix, COMMIT)];
    failure.extend(checked_keys.into_iter().map(|key| get(prefix, key)));
    Ok(PreparedTransaction {
        request: TxnRequest {
            compare,
            success,
            failure,
        },
        transaction,
        has_effect,
    })
}

impl PreparedTransaction<'_> {
    /// Converts the response; `None` if it does not match the request.
    pub(super) fn outcome(
        &self,
        prefix: &Prefix,
        offset: Offset,
        transformation: &Transformation,
        response: TxnResponse,
    ) -> Option<Outcome> {
        if response.succeeded && self.has_effect {
            return Some(Outcome::Committed(offset.revision(response.header?.revision)));
        }
        let read: Vec<KeyValue> = response.responses.into_iter().flat_map(key_values).collect();
        let get = |key: &str| {
            let key = prefix.key(key);
            read.iter().find(|kv| kv.key == key)
        };
        let newest = offset.revision(get(COMMIT)?.mod_revision);
        if response.succeeded {
            return Some(Outcome::Committed(newest));
        }
        for (key, expectation) in &self.transaction.expectations {
            let kv = get(key);
            if !expectation.holds(kv.map(|kv| offset.revision(kv.mod_revision))) {
                let current = kv.and_then(|kv| entry(key.clone(), offset, transformation, kv));
                let key = key.clone();
                return Some(Outcome::Conflict { newest, key, current });
            }
        }
        Some(Outcome::StaleIndex { newest })
    }
}

/// Returns an object as readers get it; `None` if its value is malformed.
fn entry(key: Key, offset: Offset, transformation: &Transformation, kv: &KeyValue) -> Option<Entry> {
    let modified = offset.revision(kv.mod_revision);
    let value = transformation.open_value(&key, parse_stored(&kv.value)?);
    Some(Entry {
        key,
        value: value.with_revision(modified)?,
        created: offset.revision(kv.create_revision),
        modified,
    })
}

pub(super) fn put(key: Bytes, value: Bytes) -> RequestOp {
    Request::Put(PutRequest { key, value }).into()
}

pub(super) fn get(prefix: &Prefix, key: &str) -> RequestOp {
    let key = prefix.key(key);
    Request::Range(RangeRequest {
        key,
        ..RangeRequest::default()
    })
    .into()
}

/// Returns the key-values of a range response.
pub(super) fn key_values(op: super::wire::ResponseOp) -> Vec<KeyValue> {
    match op.response {
        Some(Response::Range(range)) => range.kvs,
        _ => Vec::new(),
    }
}

/// Returns the comparison that a key was last written at a revision of etcd.
pub(super) fn has_revision(key: Bytes, mod_revision: i64) -> Compare {
    compare(
        key,
        Comparison::Equal,
        Target::Mod,
        Operand::ModRevision(mod_revision),
    )
}

fn check(transaction: &Transaction) -> Result<(), CommitError> {
    check_keys_unique(&transaction.writes)?;
    for write in &transaction.writes {
        let (key, value) = match write {
            Write::Put(key, value) => (key, Some(value)),
            Write::Delete { key, last } => (key, last.as_ref()),
        };
        let reason = if !is_object(key) {
            "expected a key that begins with a slash that no dot follows"
        } else if value.is_some_and(|value| value.revision_at.is_some_and(|at| at > value.bytes.len())) {
            "the offset of its revision is out of bounds"
        } else {
            continue;
        };
        let key = key.clone();
        return Err(CommitError::Malformed { key, reason });
    }
    Ok(())
}

/// Predicts if the transaction has an effect. If that depends on the index, adds comparisons that verify the
/// prediction.
fn predict_effect(
    prefix: &Prefix,
    index: &Index,
    transaction: &Transaction,
    comparison: &mut Vec<Compare>,
) -> bool {
    let mut absent = Vec::new();
    for write in &transaction.writes {
        match write {
            Write::Put(..) => return true,
            Write::Delete { key, .. } if index.get(key).is_some() => {
                let key = prefix.key(key);
                comparison.push(compare(
                    key,
                    Comparison::Greater,
                    Target::Version,
                    Operand::Version(0),
                ));
                return true;
            }
            Write::Delete { key, .. } => absent.push(key),
        }
    }
    comparison.extend(absent.into_iter().map(|key| {
        compare(
            prefix.key(key),
            Comparison::Equal,
            Target::Version,
            Operand::Version(0),
        )
    }));
    false
}

fn comparison(prefix: &Prefix, offset: Offset, key: &str, expectation: Expectation) -> Compare {
    let key = prefix.key(key);
    match expectation {
        Expectation::Absent => compare(key, Comparison::Equal, Target::Version, Operand::Version(0)),
        Expectation::Present => compare(key, Comparison::Greater, Target::Version, Operand::Version(0)),
        Expectation::At(revision) => has_revision(key, offset.etcd(revision)),
    }
}

fn compare(key: Bytes, result: Comparison, target: Target, operand: Operand) -> Compare {
    Compare {
        result: result.into(),
        target: target.into(),
        key,
        operand: Some(operand),
    }
}

fn operation(prefix: &Prefix, write: &Write) -> RequestOp {
    match write {
        Write::Put(key, value) => put(prefix.key(key), encode_value(value)),
        Write::Delete { key, .. } => Request::DeleteRange(DeleteRangeRequest {
            key: prefix.key(key),
            range_end: Bytes::new(),
        })
        .into(),
    }
}

fn record(writes: &[Write], mark: u64) -> CommitRecord {
    let last = writes.iter().filter_map(|write| match write {
        Write::Delete {
            key,
            last: Some(last),
        } => Some((key.clone(), last.clone())),
        _ => None,
    });
    CommitRecord {
        mark,
        last: last.collect(),
    }
}

/// Packs operations into nested transactions until the top level is small enough; `None` if there are too many.
fn nest(mut operations: Vec<RequestOp>, expectations: usize) -> Option<Vec<RequestOp>> {
    let top = FANOUT.max(expectations + 1);
    let mut remaining = OPERATIONS_MAX - top;
    while operations.len() > top {
        let width = remaining.min(FANOUT);
        remaining = remaining.checked_sub(width).filter(|_| width > 0)?;
        operations = operations
            .chunks(width)
            .map(|chunk| nested_transaction(chunk.to_vec()))
            .collect();
    }
    Some(operations)
}

fn nested_transaction(operations: Vec<RequestOp>) -> RequestOp {
    Request::Txn(TxnRequest {
        success: operations,
        ..TxnRequest::default()
    })
    .into()
}

fn malformed(transaction: &Transaction, reason: &'static str) -> CommitError {
    let written = transaction.writes.first().map(|write| match write {
        Write::Put(key, _) | Write::Delete { key, .. } => key.clone(),
    });
    let key = written.or_else(|| transaction.expectations.first().map(|(key, _)| key.clone()));
    CommitError::Malformed {
        key: key.unwrap_or_else(|| "".into()),
        reason,
    }
}

#[cfg(test)]
mod tests;
