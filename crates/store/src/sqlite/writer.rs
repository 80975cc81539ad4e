//! The writer thread: all waiting transactions become durable by one sync of the disk, are published, and then
//! acknowledged.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::database::{Database, advice, is_corruption};
use crate::group::Group;
use crate::index::PendingNotification;
use crate::{CommitError, Index, Revision, StoreError, Transaction, Write};

/// Limit of transactions per group, which bounds the wait of the first for the last.
const GROUP_TRANSACTIONS_MAX: usize = 512;

/// Number of bytes of values after which a group accepts no further transaction.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// A transaction and the channel for its result.
pub(super) struct Request {
    pub(super) transaction: Transaction,
    /// Writes in their stored form, if that differs.
    pub(super) stored: Option<Vec<Write>>,
    pub(super) reply: oneshot::Sender<CommitResult>,
}

/// Result of a transaction.
pub(super) type CommitResult = Result<Revision, CommitError>;

/// Serves requests until all senders are dropped.
pub(super) fn run(mut database: Database, index: Arc<Index>, mut requests: mpsc::Receiver<Request>) {
    let mut failing = false;
    while let Some(first) = requests.blocking_recv() {
        let waiting = gather(first, &mut requests);
        match commit(&mut database, &index, &waiting) {
            Ok((outcomes, notification)) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("store writable again");
                }
                for (request, result) in waiting.into_iter().zip(outcomes) {
                    reply(request, result);
                }
                // Acknowledges first: there may be a thousand watches to wake.
                notification.notify();
                if let Err(error) = database.prepare_next_write() {
                    tracing::debug!(%error, "next write not prepared");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "store write failed{}; reads continue, each write is attempted", advice(&error));
                }
                for request in waiting {
                    reply(request, Err(CommitError::Store(commit_failure(&error))));
                }
            }
        }
    }
}

/// Returns the first request and the waiting ones, within the limits of a group.
fn gather(first: Request, requests: &mut mpsc::Receiver<Request>) -> Vec<Request> {
    let mut bytes = size_bytes(&first.transaction);
    let mut waiting = vec![first];
    while waiting.len() < GROUP_TRANSACTIONS_MAX && bytes < GROUP_BYTES_MAX {
        let Ok(request) = requests.try_recv() else { break };
        bytes += size_bytes(&request.transaction);
        waiting.push(request);
    }
    waiting
}

/// Checks, writes and publishes a group. On an error, no transaction of the group has an effect. An expectation that
/// does not hold may depend on a lost write of the group, so it is not reported in this case.
fn commit(
    database: &mut Database,
    index: &Index,
    waiting: &[Request],
) -> Result<(Vec<CommitResult>, PendingNotification), rusqlite::Error> {
    let mut group = Group::new(index);
    let outcomes: Vec<CommitResult> = waiting
        .iter()
        .map(|request| group.add(&request.transaction))
        .collect();
    let mut notification = PendingNotification::default();
    if !group.is_empty() {
        let accepted = waiting.iter().zip(&outcomes).filter_map(|(request, result)| {
            let revision = *result.as_ref().ok()?;
            let writes = request.stored.as_ref().unwrap_or(&request.transaction.writes);
            Some((revision, writes.as_slice()))
        });
        database.write(accepted, group.newest())?;
        notification = index.publish(group.into_commits());
    }
    Ok((outcomes, notification))
}

fn reply(request: Request, result: CommitResult) {
    if request.reply.send(result).is_err() {
        tracing::debug!("transaction committed; its client no longer waits");
    }
}

fn commit_failure(error: &rusqlite::Error) -> StoreError {
    if is_corruption(error) {
        return StoreError::Corrupt {
            reason: error.to_string(),
        };
    }
    StoreError::Unavailable {
        reason: format!("{error}{}", advice(error)),
    }
}

fn size_bytes(transaction: &Transaction) -> usize {
    let size = |write: &Write| match write {
        Write::Put(key, value) => key.len() + value.bytes.len(),
        Write::Delete { key, .. } => key.len(),
    };
    transaction.writes.iter().map(size).sum()
}
