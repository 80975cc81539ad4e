//! History in etcd is forgotten after a while, as upstream does it (`--etcd-compaction-interval`): each interval,
//! up to where it was an interval ago, by one of the servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::{Code, Status};

use super::connection::{Connection, told};
use super::layout::COMPACTION;
use super::shared::Shared;
use super::transaction::{found, get, is_at, put};
use super::wire::{CompactionRequest, TxnRequest};

/// Compacts until the engine is closed.
pub(super) async fn run(shared: Arc<Shared>, interval: Duration) {
    let mut turn = Turn::default();
    loop {
        tokio::time::sleep(interval).await;
        let Ok(connection) = shared.connection() else {
            continue;
        };
        if let Err(status) = turn.take(&shared, &connection).await {
            tracing::warn!(error = %told(&status), "etcd's history could not be compacted; it is tried again");
        }
    }
}

/// What is known from the interval before.
#[derive(Default)]
pub(super) struct Turn {
    /// etcd's revision of the compaction key.
    key_at: i64,
    /// etcd's revision then; up to there is compacted.
    then: i64,
}

impl Turn {
    /// Compacts if no other server has done so since the last turn.
    pub(super) async fn take(&mut self, shared: &Shared, connection: &Connection) -> Result<(), Status> {
        let key = shared.prefix.key(COMPACTION);
        let request = TxnRequest {
            compare: vec![is_at(key.clone(), self.key_at)],
            success: vec![put(key, Bytes::from(self.then.to_string()))],
            failure: vec![get(&shared.prefix, COMPACTION)],
        };
        let answer = connection.txn(request).await?;
        let now = answer.header.map_or(0, |header| header.revision);
        let then = std::mem::replace(&mut self.then, now);
        if !answer.succeeded {
            let kv = answer.responses.into_iter().flat_map(found).next();
            self.key_at = kv.map_or(0, |kv| kv.mod_revision);
            return Ok(());
        }
        self.key_at = now;
        if then == 0 {
            return Ok(());
        }
        compact(connection, then).await
    }
}

/// Compacts up to one of etcd's revisions. What is compacted already stays so.
pub(super) async fn compact(connection: &Connection, revision: i64) -> Result<(), Status> {
    match connection.compact(CompactionRequest { revision }).await {
        Err(status) if status.code() == Code::OutOfRange => Ok(()),
        outcome => outcome,
    }
}
