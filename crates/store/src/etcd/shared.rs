//! What the tasks of the engine share: the index, how far it is, and the connection to etcd.

use std::time::Duration;

use tokio::sync::watch;

use super::connection::Connection;
use super::layout::{Offset, Prefix};
use crate::index::Commit;
use crate::{Index, Revision, StoreError, Transformation};

/// How long what etcd has acknowledged may take to come back by the watch.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of the connection to etcd.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// It stands, and the index follows.
    Up(Connection),
    /// It is broken, for this reason; it is tried again and again.
    Down(String),
    /// etcd has another history than the index: nothing that is known is right any more.
    Lost(String),
}

pub(super) struct Shared {
    pub(super) index: Index,
    pub(super) prefix: Prefix,
    pub(super) offset: Offset,
    pub(super) transformation: Transformation,
    link: watch::Sender<Link>,
    published: watch::Sender<Revision>,
}

impl Shared {
    pub(super) fn new(
        index: Index,
        prefix: Prefix,
        offset: Offset,
        transformation: Transformation,
    ) -> Shared {
        let published = watch::Sender::new(index.revision());
        Shared {
            index,
            prefix,
            offset,
            transformation,
            link: watch::Sender::new(Link::Down("etcd: not connected yet".to_owned())),
            published,
        }
    }

    /// The connection, if it stands.
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
        let settled = link.wait_for(|link| !matches!(link, Link::Down(_)));
        match tokio::time::timeout(CATCH_UP_TIMEOUT, settled).await {
            Ok(Ok(_)) => self.connection().map(|_| ()),
            _ => self.connection().map(|_| ()),
        }
    }

    /// Waits until the index has come to a revision.
    pub(super) async fn caught_up(&self, revision: Revision) -> Result<(), StoreError> {
        let mut published = self.published.subscribe();
        let coming = published.wait_for(|published| *published >= revision);
        match tokio::time::timeout(CATCH_UP_TIMEOUT, coming).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Unavailable {
                reason: format!("etcd: its watch has not told revision {revision} yet"),
            }),
        }
    }

    /// Resolves when etcd turns out to have another history.
    pub(super) async fn wait_lost(&self) -> StoreError {
        let mut link = self.link.subscribe();
        // An error is impossible: the sender is in `self`.
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
        self.index.publish(commits).tell();
        self.published.send_replace(self.index.revision());
    }

    /// The connection stands. Said in the log when it did not before.
    pub(super) fn up(&self, connection: Connection) {
        tracing::info!(revision = %self.index.revision(), "etcd is followed");
        self.link.send_replace(Link::Up(connection));
    }

    /// The connection is broken. Said in the log once until it stands again.
    pub(super) fn interrupted(&self, error: &StoreError) {
        if matches!(&*self.link.borrow(), Link::Up(_)) {
            tracing::error!(%error, "etcd cannot be reached; writes and consistent reads are refused until it can");
        }
        self.link.send_replace(Link::Down(error.to_string()));
    }

    pub(super) fn lost(&self, reason: String) {
        tracing::error!(%reason, "etcd cannot be followed any more");
        self.link.send_replace(Link::Lost(format!("etcd: {reason}")));
    }
}
