//! Keeps the index current by one watch on all keys, which is resumed after each interruption.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use super::connection::{Connection, store_error};
use super::events;
use super::layout::{LAYOUT, Layout};
use super::load::{self, HistoryCheck, HistoryMark, check_history_mark};
use super::state::EtcdState;
use super::transaction::{has_revision, put};
use super::wire::{TxnRequest, WatchCreateRequest, WatchResponse};
use crate::index::{Change, Commit};
use crate::{Entry, Key, Revision, StoreError};

/// Back-off before the next member is tried: doubled up to the limit, with jitter.
const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// State of the task.
pub(super) struct Follower {
    pub(super) shared: Arc<EtcdState>,
    pub(super) endpoints: Vec<Endpoint>,
    /// Number of the next endpoint.
    pub(super) next: usize,
    /// Revision of etcd up to which the index is complete.
    pub(super) reached: i64,
    pub(super) history_mark: HistoryMark,
}

/// Reason for the end of a session.
enum SessionEnd {
    /// The connection failed or etcd rejected the request; another member or a retry may succeed.
    Broken(StoreError),
    /// The watch was rejected because history was compacted.
    Compacted,
    /// etcd does not contain the history that the index was made from.
    ForeignHistory(String),
}

impl From<StoreError> for SessionEnd {
    fn from(error: StoreError) -> SessionEnd {
        SessionEnd::Broken(error)
    }
}

impl Follower {
    /// Follows etcd until it has another history.
    pub(super) async fn run(mut self) {
        let mut pause = BACK_OFF_FIRST;
        loop {
            let reached = self.reached;
            let end = self.follow().await;
            // Progress resets the back-off.
            if self.reached > reached {
                pause = BACK_OFF_FIRST;
            }
            match end {
                SessionEnd::Broken(error) => self.shared.set_disconnected(&error),
                SessionEnd::Compacted => {}
                SessionEnd::ForeignHistory(reason) => {
                    self.shared.set_lost(reason);
                    return;
                }
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(BACK_OFF_MAX);
        }
    }

    /// Connects to the next member and follows it until the session ends.
    async fn follow(&mut self) -> SessionEnd {
        match self.session().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn session(&mut self) -> Result<std::convert::Infallible, SessionEnd> {
        let endpoint = &self.endpoints[self.next % self.endpoints.len()];
        self.next += 1;
        let connection = Connection::open(endpoint).await.map_err(disconnected)?;
        self.check_history(&connection).await?;
        let (key, range_end) = self.shared.prefix.range();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: self.reached + 1,
            fragment: true,
        };
        let mut watch = connection.watch(create).await.map_err(disconnected)?;
        // The first response confirms the watch.
        match next_response(&mut watch).await {
            Err(SessionEnd::Compacted) => {
                self.reload(&connection).await?;
                return Err(SessionEnd::Compacted);
            }
            other => self.apply(&other?)?,
        }
        self.shared.set_connected(connection);
        loop {
            let response = next_response(&mut watch).await?;
            self.apply(&response)?;
        }
    }

    /// Checks that etcd still has the history that the index was made from.
    async fn check_history(&mut self, connection: &Connection) -> Result<(), SessionEnd> {
        let prefix = &self.shared.prefix;
        let (layout, layout_at) = load::read_layout(connection, prefix).await?;
        let expected = Layout::new(self.shared.offset.0);
        let check = match layout {
            None => (HistoryCheck::ForeignHistory, 0),
            Some(_) => check_history_mark(connection, prefix, self.history_mark, self.reached).await?,
        };
        match check {
            (HistoryCheck::Same | HistoryCheck::Compacted, _) if layout != Some(expected) => Err(
                SessionEnd::ForeignHistory("another program has replaced the store".to_owned()),
            ),
            (HistoryCheck::Same, _) => Ok(()),
            (HistoryCheck::Compacted, _) => Ok(self.reload(connection).await?),
            (HistoryCheck::ForeignHistory, now) => {
                if layout == Some(expected) {
                    self.raise_offset(connection, layout_at, now).await;
                }
                Err(SessionEnd::ForeignHistory(format!(
                    "its history was replaced, as by a restore from an older snapshot: expected revision {} or \
                     more, found {now}",
                    self.reached
                )))
            }
        }
    }

    /// Raises the offset, so that an etcd restored from an older snapshot does not assign revisions a second time.
    /// The first of several servers does it.
    async fn raise_offset(&self, connection: &Connection, layout_at: i64, now: i64) {
        let seen = self.shared.offset.revision(self.reached).0;
        let offset = seen.saturating_sub(u64::try_from(now).unwrap_or(0)) + 1;
        if offset <= self.shared.offset.0 {
            return;
        }
        let key = self.shared.prefix.key(LAYOUT);
        let request = TxnRequest {
            compare: vec![has_revision(key.clone(), layout_at)],
            success: vec![put(key, Layout::new(offset).encode())],
            failure: Vec::new(),
        };
        match connection.txn(request).await {
            Ok(response) if response.succeeded => {
                tracing::warn!(
                    offset,
                    "etcd restored from an older snapshot; revision offset raised"
                )
            }
            Ok(_) => {}
            Err(status) => {
                tracing::warn!(error = %store_error(&status), "etcd restored from an older snapshot; revision offset not raised, revisions may repeat")
            }
        }
    }

    fn apply(&mut self, response: &WatchResponse) -> Result<(), SessionEnd> {
        let batch = events::convert(
            &self.shared.prefix,
            self.shared.offset,
            &self.shared.transformation,
            &response.events,
        );
        if let Some(layout) = batch.layout
            && layout != Some(Layout::new(self.shared.offset.0))
        {
            return Err(SessionEnd::ForeignHistory(
                "another program has replaced the store".to_owned(),
            ));
        }
        if let Some(newest) = batch.newest {
            self.reached = newest;
        }
        if let Some(history_mark) = batch.history_mark {
            self.history_mark = history_mark;
        }
        self.shared.publish(batch.commits);
        Ok(())
    }

    /// Brings the index to the current state if the history in between is compacted. Watches that have not read all
    /// earlier events end with an error.
    async fn reload(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let shared = &self.shared;
        let index_revision = shared.index.revision();
        let mut present = HashSet::new();
        let mut changed: Vec<Entry> = Vec::new();
        let loaded = load::load(connection, &shared.prefix, shared.offset, |record| {
            present.insert(record.key.clone());
            if record.modified > index_revision {
                changed.extend(shared.transformation.open_record(record).into_entry());
            }
        })
        .await?;
        let listing = shared.index.list("/", None, None, None)?;
        let gone = listing.entries.into_iter().map(|entry| entry.key);
        let gone: Vec<Key> = gone.filter(|key| !present.contains(key)).collect();
        let newest = shared.offset.revision(loaded.newest);
        if newest > index_revision {
            shared.publish(differences(changed, gone, newest));
            shared.index.compact(newest)?;
        }
        self.reached = loaded.revision;
        self.history_mark = loaded.history_mark;
        tracing::warn!(revision = %newest, "followed revision of etcd compacted; index reloaded");
        Ok(())
    }
}

/// Returns commits that lead to the current state: changes under the revisions of the last writes, deletions at the
/// end.
fn differences(mut changed: Vec<Entry>, gone: Vec<Key>, newest: Revision) -> Vec<Commit> {
    changed.sort_by_key(|entry| entry.modified);
    let mut commits: Vec<Commit> = Vec::new();
    for Entry {
        key, value, modified, ..
    } in changed
    {
        let change = Change::Put { key, value };
        match commits.last_mut() {
            Some(commit) if commit.revision == modified => commit.changes.push(change),
            _ => commits.push(Commit {
                revision: modified,
                changes: vec![change],
            }),
        }
    }
    let deletions = gone.into_iter().map(|key| Change::Delete { key, last: None });
    match commits.last_mut() {
        Some(commit) if commit.revision == newest => commit.changes.extend(deletions),
        _ => commits.push(Commit {
            revision: newest,
            changes: deletions.collect(),
        }),
    }
    commits
}

/// Returns the next response of a watch, joined from its fragments.
async fn next_response(watch: &mut Streaming<WatchResponse>) -> Result<WatchResponse, SessionEnd> {
    let mut whole: Option<WatchResponse> = None;
    loop {
        let Some(response) = watch.message().await.map_err(disconnected)? else {
            return Err(disconnected(Status::unavailable("the watch ended")));
        };
        if response.compact_revision > 0 {
            return Err(SessionEnd::Compacted);
        }
        if response.canceled {
            let reason = format!("the watch was cancelled: {}", response.cancel_reason);
            return Err(disconnected(Status::unavailable(reason)));
        }
        let is_fragment = response.fragment;
        match &mut whole {
            Some(whole) => whole.events.extend(response.events),
            None => whole = Some(response),
        }
        if !is_fragment && let Some(whole) = whole.take() {
            return Ok(whole);
        }
    }
}

fn disconnected(status: Status) -> SessionEnd {
    SessionEnd::Broken(store_error(&status))
}

#[cfg(test)]
mod tests;
