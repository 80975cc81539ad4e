//! Compaction of etcd's history, as upstream does it (`--etcd-compaction-interval`). Each interval, one of the
//! servers compacts up to the revision of one interval ago.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::{Code, Status};

use super::connection::{Connection, store_error};
use super::layout::COMPACTION;
use super::state::EtcdState;
use super::transaction::{get, has_revision, key_values, put};
use super::wire::{CompactionRequest, TxnRequest};

/// Compacts periodically until the engine is closed.
pub(super) async fn run(shared: Arc<EtcdState>, interval: Duration) {
    let mut compactor = Compactor::default();
    loop {
        tokio::time::sleep(interval).await;
        let Ok(connection) = shared.connection() else {
            continue;
        };
        if let Err(status) = compactor.compact_if_due(&shared, &connection).await {
            tracing::warn!(error = %store_error(&status), "compaction failed; retrying");
        }
    }
}

/// State from the previous interval.
#[derive(Default)]
pub(super) struct Compactor {
    /// etcd's revision of the compaction key.
    key_revision: i64,
    /// etcd's revision at that time, up to which history is compacted next.
    previous_revision: i64,
}

impl Compactor {
    /// Compacts if no other server has done so in this interval.
    pub(super) async fn compact_if_due(
        &mut self,
        shared: &EtcdState,
        connection: &Connection,
    ) -> Result<(), Status> {
        let key = shared.prefix.key(COMPACTION);
        let request = TxnRequest {
            compare: vec![has_revision(key.clone(), self.key_revision)],
            success: vec![put(key, Bytes::from(self.previous_revision.to_string()))],
            failure: vec![get(&shared.prefix, COMPACTION)],
        };
        let response = connection.txn(request).await?;
        let now = response.header.map_or(0, |header| header.revision);
        let previous_revision = std::mem::replace(&mut self.previous_revision, now);
        if !response.succeeded {
            let kv = response.responses.into_iter().flat_map(key_values).next();
            self.key_revision = kv.map_or(0, |kv| kv.mod_revision);
            return Ok(());
        }
        self.key_revision = now;
        if previous_revision == 0 {
            return Ok(());
        }
        compact(connection, previous_revision).await
    }
}

/// Compacts up to a revision of etcd. Compacting to an older revision has no effect.
pub(super) async fn compact(connection: &Connection, revision: i64) -> Result<(), Status> {
    match connection.compact(CompactionRequest { revision }).await {
        Err(status) if status.code() == Code::OutOfRange => Ok(()),
        outcome => outcome,
    }
}
