//! Consistent reads: the revision of the newest commit is read from etcd, and the reader waits until the index has
//! it. Readers that arrive during a request share the next one.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::connection::store_error;
use super::layout::COMMIT;
use super::state::EtcdState;
use super::wire::RangeRequest;
use crate::{Revision, StoreError};

/// Limit of readers that wait for a request; further ones wait for room in the queue. It exceeds the number of
/// requests that a server processes at a time.
const WAITING_READERS_MAX: usize = 4_096;

type BarrierResult = Result<Revision, String>;

/// Handle of the barrier task.
#[derive(Clone)]
pub(super) struct Barrier(mpsc::Sender<oneshot::Sender<BarrierResult>>);

/// Task that reads the newest commit from etcd.
pub(super) struct BarrierTask {
    shared: Arc<EtcdState>,
    waiting: mpsc::Receiver<oneshot::Sender<BarrierResult>>,
}

pub(super) fn new(shared: Arc<EtcdState>) -> (Barrier, BarrierTask) {
    let (sender, waiting) = mpsc::channel(WAITING_READERS_MAX);
    (Barrier(sender), BarrierTask { shared, waiting })
}

impl Barrier {
    /// Returns the revision of the newest commit of any server before the call.
    pub(super) async fn newest(&self) -> Result<Revision, StoreError> {
        let (sender, response) = oneshot::channel();
        let unavailable = |reason: String| StoreError::Unavailable { reason };
        let closed = || unavailable("etcd: the store was closed".to_owned());
        self.0.send(sender).await.map_err(|_| closed())?;
        response.await.map_err(|_| closed())?.map_err(unavailable)
    }
}

impl BarrierTask {
    /// Serves readers until all handles are dropped.
    pub(super) async fn run(mut self) {
        let mut readers = Vec::new();
        while self.waiting.recv_many(&mut readers, WAITING_READERS_MAX).await > 0 {
            let response = self.read_newest().await;
            for reader in readers.drain(..) {
                if reader.send(response.clone()).is_err() {
                    tracing::trace!("reader dropped before the response of etcd");
                }
            }
        }
    }

    async fn read_newest(&self) -> BarrierResult {
        let connection = self.shared.connection().map_err(reason)?;
        let newest = RangeRequest {
            key: self.shared.prefix.key(COMMIT),
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = connection
            .range(newest)
            .await
            .map_err(|status| reason(store_error(&status)))?;
        let kv = response.kvs.first();
        let kv = kv.ok_or_else(|| "etcd: the commit record is missing".to_owned())?;
        Ok(self.shared.offset.revision(kv.mod_revision))
    }
}

fn reason(error: StoreError) -> String {
    match error {
        StoreError::Unavailable { reason } => reason,
        other => other.to_string(),
    }
}
