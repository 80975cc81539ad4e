//! A transaction of the store as one of etcd's, and what the answer means. Pure.

use std::collections::HashSet;

use bytes::Bytes;

use super::layout::{COMMIT, CommitRecord, Offset, Prefix, is_object, parse_stored, stored};
use super::wire::{
    Compare, Comparison, DeleteRangeRequest, KeyValue, Operand, PutRequest, RangeRequest, Request, RequestOp,
    Response, Target, TxnRequest, TxnResponse,
};
use crate::group::check_keys_differ;
use crate::{CommitError, Entry, Expectation, Index, Key, Revision, Transaction, Transformation, Write};

/// etcd's `--max-txn-ops`: what the widest part of a transaction and those of the transactions nested in it may
/// have together.
const OPERATIONS_MAX: usize = 128;
/// Operations on a level of a transaction that is nested because it has many. There is room for three such levels and a
/// fourth of eight operations, which makes half a million.
const FANOUT: usize = 40;
/// Expectations of a transaction: leaves room for a level of operations below.
const EXPECTATIONS_MAX: usize = 120;

/// A transaction that is ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared<'t> {
    pub(super) request: TxnRequest,
    transaction: &'t Transaction,
    changes_something: bool,
}

/// What etcd answered.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was carried out, or checked if it changes nothing. The index has to come to this revision.
    Done(Revision),
    /// An expectation did not hold. What it rests on is in the index once that has come to `newest`.
    Conflict {
        newest: Revision,
        key: Key,
        current: Option<Entry>,
    },
    /// Whether it changes anything was judged by an index that was behind: once that has come to `newest`, it is to
    /// be prepared anew.
    Misjudged { newest: Revision },
}

/// Turns a transaction, with its writes as they are stored, into one of etcd's. The index tells only whether deletions change something; that this
/// is so is an expectation too.
pub(super) fn prepare<'t>(
    prefix: &Prefix,
    offset: Offset,
    index: &Index,
    (transaction, stored): (&'t Transaction, &[Write]),
    mark: u64,
) -> Result<Prepared<'t>, CommitError> {
    check(transaction)?;
    let mut compare: Vec<Compare> = transaction
        .expectations
        .iter()
        .map(|(key, expectation)| compared(prefix, offset, key, *expectation))
        .collect();
    let changes_something = pin(prefix, index, transaction, &mut compare);
    if compare.len() > EXPECTATIONS_MAX {
        return Err(malformed(transaction, "it has more expectations than etcd takes"));
    }
    let success = if changes_something {
        let mut operations = vec![put(prefix.key(COMMIT), record(stored, mark).encoded())];
        operations.extend(stored.iter().map(|write| operation(prefix, write)));
        nested(operations, compare.len())
            .ok_or_else(|| malformed(transaction, "it has more writes than etcd takes"))?
    } else {
        vec![get(prefix, COMMIT)]
    };
    let looked_at: HashSet<&Key> = transaction.expectations.iter().map(|(key, _)| key).collect();
    let mut failure = vec![get(prefix, COMMIT)];
    failure.extend(looked_at.into_iter().map(|key| get(prefix, key)));
    Ok(Prepared {
        request: TxnRequest {
            compare,
            success,
            failure,
        },
        transaction,
        changes_something,
    })
}

impl Prepared<'_> {
    /// Reads the answer; `None` if it does not fit the request.
    pub(super) fn outcome(
        &self,
        prefix: &Prefix,
        offset: Offset,
        transformation: &Transformation,
        response: TxnResponse,
    ) -> Option<Outcome> {
        if response.succeeded && self.changes_something {
            return Some(Outcome::Done(offset.revision(response.header?.revision)));
        }
        let found: Vec<KeyValue> = response.responses.into_iter().flat_map(found).collect();
        let get = |key: &str| {
            let key = prefix.key(key);
            found.iter().find(|kv| kv.key == key)
        };
        let newest = offset.revision(get(COMMIT)?.mod_revision);
        if response.succeeded {
            return Some(Outcome::Done(newest));
        }
        for (key, expectation) in &self.transaction.expectations {
            let kv = get(key);
            if !expectation.holds(kv.map(|kv| offset.revision(kv.mod_revision))) {
                let current = kv.and_then(|kv| entry(key.clone(), offset, transformation, kv));
                let key = key.clone();
                return Some(Outcome::Conflict { newest, key, current });
            }
        }
        Some(Outcome::Misjudged { newest })
    }
}

/// An object as readers see it; `None` if its value is none of ours.
fn entry(key: Key, offset: Offset, transformation: &Transformation, kv: &KeyValue) -> Option<Entry> {
    let modified = offset.revision(kv.mod_revision);
    let value = transformation.opened(&key, parse_stored(&kv.value)?);
    Some(Entry {
        key,
        value: value.inscribed(modified)?,
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

/// What the reads among the answers found.
pub(super) fn found(op: super::wire::ResponseOp) -> Vec<KeyValue> {
    match op.response {
        Some(Response::Range(range)) => range.kvs,
        _ => Vec::new(),
    }
}

/// That a key was last written at one of etcd's revisions.
pub(super) fn is_at(key: Bytes, mod_revision: i64) -> Compare {
    compare(
        key,
        Comparison::Equal,
        Target::Mod,
        Operand::ModRevision(mod_revision),
    )
}

fn check(transaction: &Transaction) -> Result<(), CommitError> {
    check_keys_differ(&transaction.writes)?;
    for write in &transaction.writes {
        let (key, value) = match write {
            Write::Put(key, value) => (key, Some(value)),
            Write::Delete { key, last } => (key, last.as_ref()),
        };
        let reason = if !is_object(key) {
            "keys begin with a slash and no dot behind it"
        } else if value.is_some_and(|value| value.revision_at.is_some_and(|at| at > value.bytes.len())) {
            "the place for its revision lies beyond the end of the value"
        } else {
            continue;
        };
        let key = key.clone();
        return Err(CommitError::Malformed { key, reason });
    }
    Ok(())
}

/// Whether the transaction changes something; if that depends on what is there, adds that it is still so to what is
/// compared.
fn pin(prefix: &Prefix, index: &Index, transaction: &Transaction, compared: &mut Vec<Compare>) -> bool {
    let mut absent = Vec::new();
    for write in &transaction.writes {
        match write {
            Write::Put(..) => return true,
            Write::Delete { key, .. } if index.get(key).is_some() => {
                let key = prefix.key(key);
                compared.push(compare(
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
    compared.extend(absent.into_iter().map(|key| {
        compare(
            prefix.key(key),
            Comparison::Equal,
            Target::Version,
            Operand::Version(0),
        )
    }));
    false
}

fn compared(prefix: &Prefix, offset: Offset, key: &str, expectation: Expectation) -> Compare {
    let key = prefix.key(key);
    match expectation {
        Expectation::Absent => compare(key, Comparison::Equal, Target::Version, Operand::Version(0)),
        Expectation::Present => compare(key, Comparison::Greater, Target::Version, Operand::Version(0)),
        Expectation::At(revision) => is_at(key, offset.etcd(revision)),
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
        Write::Put(key, value) => put(prefix.key(key), stored(value)),
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

/// Packs operations into nested transactions until a level is small enough; `None` if there are too many.
fn nested(mut operations: Vec<RequestOp>, expectations: usize) -> Option<Vec<RequestOp>> {
    let top = FANOUT.max(expectations + 1);
    let mut room = OPERATIONS_MAX - top;
    while operations.len() > top {
        let width = room.min(FANOUT);
        room = room.checked_sub(width).filter(|_| width > 0)?;
        operations = operations
            .chunks(width)
            .map(|chunk| inner(chunk.to_vec()))
            .collect();
    }
    Some(operations)
}

fn inner(operations: Vec<RequestOp>) -> RequestOp {
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
