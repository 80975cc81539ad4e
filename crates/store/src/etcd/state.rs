//! State that the tasks of the engine share: the index, its progress, and the connection to etcd.

use std::time::Duration;

use tokio::sync::watch;

use super::connection::Connection;
use super::layout::{Offset, Prefix};
use crate::index::Commit;
use crate::{Index, Revision, StoreError, Transformation};

/// Time for an acknowledged write to arrive by the watch.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// State of the connection to etcd.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// Connected; the index follows etcd.
    Up(Connection),
    /// Disconnected for this reason; reconnection is attempted.
    Down(String),
    /// etcd has another history than the index, whose data is wrong.
    Lost(String),
}

/// State that all tasks of the store share.
pub(super) struct EtcdState {
    pub(super) index: Index,
    pub(super) prefix: Prefix,
    pub(super) offset: Offset,
    pub(super) transformation: Transformation,
    link: watch::Sender<Link>,
    published: watch::Sender<Revision>,
}

impl EtcdState {
    pub(super) fn new(
        index: Index,
        prefix: Prefix,
        offset: Offset,
        transformation: Transformation,
    ) -> EtcdState {
        let published = watch::Sender::new(index.revision());
        EtcdState {
            index,
            prefix,
            offset,
            transformation,
            link: watch::Sender::new(Link::Down("etcd: not connected yet".to_owned())),
            published,
        }
    }

    /// Returns the connection, if there is one.
    pub(super) fn connection(&self) -> Result<Connection, StoreError> {
        match &*self.link.borrow() {
            Link::Up(connection) => Ok(connection.clone()),
            Link::Down(reason) | Link::Lost(reason) => Err(StoreError::Unavailable {
                reason: reason.clone(),
            }),
        }
    }

    /// Waits until the index follows etcd.
    pub(super) async fn connected(&self) -> Result<(), StoreError> {
        let mut link = self.link.subscribe();
        let decided = link.wait_for(|link| !matches!(link, Link::Down(_)));
        match tokio::time::timeout(CATCH_UP_TIMEOUT, decided).await {
            Ok(Ok(_)) => self.connection().map(|_| ()),
            _ => self.connection().map(|_| ()),
        }
    }

    /// Waits until the index has a revision.
    pub(super) async fn wait_for_revision(&self, revision: Revision) -> Result<(), StoreError> {
        let mut published = self.published.subscribe();
        let reached = published.wait_for(|published| *published >= revision);
        match tokio::time::timeout(CATCH_UP_TIMEOUT, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Unavailable {
                reason: format!("etcd: its watch has not delivered revision {revision} yet"),
            }),
        }
    }

    /// Resolves when etcd has another history than the index.
    pub(super) async fn wait_lost(&self) -> StoreError {
        let mut link = self.link.subscribe();
        // The wait cannot fail: the sender is in `self`.
        let lost = link.wait_for(|link| matches!(link, Link::Lost(_))).await;
        let reason = match lost.as_deref() {
            Ok(Link::Lost(reason)) => reason.clone(),
            _ => "etcd: the store was closed".to_owned(),
        };
        StoreError::Corrupt { reason }
    }

    pub(super) fn publish(&self, commits: Vec<Commit>) {
        if commits.is_empty() {
            return;
        }
        self.index.publish(commits).notify();
        self.published.send_replace(self.index.revision());
    }

    /// Records a connection.
    pub(super) fn set_connected(&self, connection: Connection) {
        tracing::info!(revision = %self.index.revision(), "etcd connected");
        self.link.send_replace(Link::Up(connection));
    }

    /// Records a disconnection, and logs it once until the next connection.
    pub(super) fn set_disconnected(&self, error: &StoreError) {
        if matches!(&*self.link.borrow(), Link::Up(_)) {
            tracing::error!(%error, "etcd disconnected; writes and consistent reads fail");
        }
        self.link.send_replace(Link::Down(error.to_string()));
    }

    pub(super) fn set_lost(&self, reason: String) {
        tracing::error!(%reason, "history of etcd replaced");
        self.link.send_replace(Link::Lost(format!("etcd: {reason}")));
    }
}
