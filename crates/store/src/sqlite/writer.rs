//! The writer thread: whatever waits is made durable by one sync of the disk, then published, then
//! acknowledged.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::database::{Database, advice, is_corruption};
use crate::group::Group;
use crate::index::News;
use crate::{CommitError, Index, Revision, StoreError, Transaction, Write};

/// Transactions in a group: bounds how long the first of them waits for the last to be written.
const GROUP_TRANSACTIONS_MAX: usize = 512;

/// Bytes of values after which a group takes no further transaction.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// A transaction and who waits for it.
pub(super) struct Request {
    pub(super) transaction: Transaction,
    /// Its writes as they are stored, if that is in another form.
    pub(super) stored: Option<Vec<Write>>,
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// What becomes of a transaction.
pub(super) type Outcome = Result<Revision, CommitError>;

/// Serves requests until their senders are gone.
pub(super) fn run(mut database: Database, index: Arc<Index>, mut requests: mpsc::Receiver<Request>) {
    let mut failing = false;
    while let Some(first) = requests.blocking_recv() {
        let waiting = gather(first, &mut requests);
        match commit(&mut database, &index, &waiting) {
            Ok((outcomes, news)) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("the store can write again");
                }
                for (request, outcome) in waiting.into_iter().zip(outcomes) {
                    answer(request, outcome);
                }
                // There may be a thousand watches; whoever has written need not wait until they are awake.
                news.tell();
                if let Err(error) = database.prepare_for_more() {
                    tracing::debug!(%error, "the next write begins unprepared");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "the store cannot write{}; reads go on, and each write is tried", advice(&error));
                }
                for request in waiting {
                    answer(request, Err(CommitError::Store(refusal(&error))));
                }
            }
        }
    }
}

/// The first request and those that wait behind it, within the bounds of a group.
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

/// Judges, writes and publishes a group. On an error nothing of it happened; even a refused expectation may
/// have been judged by a write that is lost, so it is not told.
fn commit(
    database: &mut Database,
    index: &Index,
    waiting: &[Request],
) -> Result<(Vec<Outcome>, News), rusqlite::Error> {
    let mut group = Group::new(index);
    let outcomes: Vec<Outcome> = waiting
        .iter()
        .map(|request| group.add(&request.transaction))
        .collect();
    let mut news = News::default();
    if !group.is_empty() {
        let accepted = waiting.iter().zip(&outcomes).filter_map(|(request, outcome)| {
            let revision = *outcome.as_ref().ok()?;
            let writes = request.stored.as_ref().unwrap_or(&request.transaction.writes);
            Some((revision, writes.as_slice()))
        });
        database.write(accepted, group.newest())?;
        news = index.publish(group.into_commits());
    }
    Ok((outcomes, news))
}

fn answer(request: Request, outcome: Outcome) {
    if request.answer.send(outcome).is_err() {
        tracing::debug!("a transaction was carried out after its caller had gone");
    }
}

fn refusal(error: &rusqlite::Error) -> StoreError {
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
