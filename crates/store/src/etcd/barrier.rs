//! How reads see what other servers have written: etcd is asked for the revision of the newest commit, and the
//! index is waited for. Those who ask while a question is under way share the next one.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::connection::told;
use super::layout::COMMIT;
use super::shared::Shared;
use super::wire::RangeRequest;
use crate::{Revision, StoreError};

/// Readers that wait for a question; further ones wait for a place. More than requests that a server takes at a time.
const WAITING_MAX: usize = 4_096;

type Answer = Result<Revision, String>;

/// Where to ask.
#[derive(Clone)]
pub(super) struct Barrier(mpsc::Sender<oneshot::Sender<Answer>>);

/// The end that answers.
pub(super) struct Asking {
    shared: Arc<Shared>,
    waiting: mpsc::Receiver<oneshot::Sender<Answer>>,
}

pub(super) fn new(shared: Arc<Shared>) -> (Barrier, Asking) {
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    (Barrier(sender), Asking { shared, waiting })
}

impl Barrier {
    /// The revision of the newest commit of anybody before now.
    pub(super) async fn newest(&self) -> Result<Revision, StoreError> {
        let (sender, answer) = oneshot::channel();
        let unavailable = |reason: String| StoreError::Unavailable { reason };
        let closed = || unavailable("etcd: the store was closed".to_owned());
        self.0.send(sender).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.map_err(unavailable)
    }
}

impl Asking {
    /// Answers until nobody can ask any more.
    pub(super) async fn run(mut self) {
        let mut askers = Vec::new();
        while self.waiting.recv_many(&mut askers, WAITING_MAX).await > 0 {
            let answer = self.ask().await;
            for asker in askers.drain(..) {
                if asker.send(answer.clone()).is_err() {
                    tracing::trace!("a reader did not wait for etcd");
                }
            }
        }
    }

    async fn ask(&self) -> Answer {
        let connection = self.shared.connection().map_err(reason)?;
        let newest = RangeRequest {
            key: self.shared.prefix.key(COMMIT),
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer = connection
            .range(newest)
            .await
            .map_err(|status| reason(told(&status)))?;
        let kv = answer.kvs.first();
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
