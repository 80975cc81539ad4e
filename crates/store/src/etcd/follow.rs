//! Keeps the index up to date: one watch on everything, resumed after every interruption from where it was.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use super::connection::{Connection, told};
use super::events;
use super::layout::{LAYOUT, Layout};
use super::load::{self, Landmark, Recognition, recognize};
use super::shared::Shared;
use super::transaction::{is_at, put};
use super::wire::{TxnRequest, WatchCreateRequest, WatchResponse};
use crate::index::{Change, Commit};
use crate::{Entry, Key, Revision, StoreError};

/// How long to wait before the next member is tried; doubled each time up to the limit, and spread.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The task's state.
pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    pub(super) endpoints: Vec<Endpoint>,
    /// Which of them is used next.
    pub(super) next: usize,
    /// etcd's revision up to which the index is complete.
    pub(super) reached: i64,
    pub(super) landmark: Landmark,
}

/// Why following ended.
enum End {
    /// The connection broke or etcd refused; another member or another time may do.
    Broken(StoreError),
    /// The watch was refused since history was compacted meanwhile.
    Compacted,
    /// What is in etcd is not what the index was made from.
    Other(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> End {
        End::Broken(error)
    }
}

impl Follower {
    /// Follows until etcd turns out to have another history.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_FIRST;
        loop {
            let reached = self.reached;
            let end = self.follow().await;
            // Whoever got anywhere is tried again at once.
            if self.reached > reached {
                pause = PAUSE_FIRST;
            }
            match end {
                End::Broken(error) => self.shared.interrupted(&error),
                End::Compacted => {}
                End::Other(reason) => {
                    self.shared.lost(reason);
                    return;
                }
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Connects to the next member and follows it until something stands against it.
    async fn follow(&mut self) -> End {
        match self.session().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn session(&mut self) -> Result<std::convert::Infallible, End> {
        let endpoint = &self.endpoints[self.next % self.endpoints.len()];
        self.next += 1;
        let connection = Connection::open(endpoint).await.map_err(broken)?;
        self.make_sure(&connection).await?;
        let (key, range_end) = self.shared.prefix.range();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: self.reached + 1,
            fragment: true,
        };
        let mut watch = connection.watch(create).await.map_err(broken)?;
        // The first answer says that the watch stands.
        match next_response(&mut watch).await {
            Err(End::Compacted) => {
                self.read_anew(&connection).await?;
                return Err(End::Compacted);
            }
            other => self.take(&other?)?,
        }
        self.shared.up(connection);
        loop {
            let response = next_response(&mut watch).await?;
            self.take(&response)?;
        }
    }

    /// Makes sure that etcd still has the history that the index was made from.
    async fn make_sure(&mut self, connection: &Connection) -> Result<(), End> {
        let prefix = &self.shared.prefix;
        let (layout, layout_at) = load::read_layout(connection, prefix).await?;
        let expected = Layout::new(self.shared.offset.0);
        let recognition = match layout {
            None => (Recognition::Other, 0),
            Some(_) => recognize(connection, prefix, self.landmark, self.reached).await?,
        };
        match recognition {
            (Recognition::Same | Recognition::Forgotten, _) if layout != Some(expected) => Err(End::Other(
                "another program has written the store anew".to_owned(),
            )),
            (Recognition::Same, _) => Ok(()),
            (Recognition::Forgotten, _) => Ok(self.read_anew(connection).await?),
            (Recognition::Other, now) => {
                if layout == Some(expected) {
                    self.raise_offset(connection, layout_at, now).await;
                }
                Err(End::Other(format!(
                    "it has another history than before, as if restored from an older snapshot: revision {now} where \
                     {} was seen",
                    self.reached
                )))
            }
        }
    }

    /// After etcd was set back, revisions would be given out a second time; a larger offset prevents that. Whoever of
    /// several servers comes first does it.
    async fn raise_offset(&self, connection: &Connection, layout_at: i64, now: i64) {
        let seen = self.shared.offset.revision(self.reached).0;
        let offset = seen.saturating_sub(u64::try_from(now).unwrap_or(0)) + 1;
        if offset <= self.shared.offset.0 {
            return;
        }
        let key = self.shared.prefix.key(LAYOUT);
        let request = TxnRequest {
            compare: vec![is_at(key.clone(), layout_at)],
            success: vec![put(key, Layout::new(offset).encoded())],
            failure: Vec::new(),
        };
        match connection.txn(request).await {
            Ok(answer) if answer.succeeded => {
                tracing::warn!(offset, "etcd was set back; revisions go on above those seen")
            }
            Ok(_) => {}
            Err(status) => {
                tracing::warn!(error = %told(&status), "etcd was set back, and revisions may be given out again")
            }
        }
    }

    fn take(&mut self, response: &WatchResponse) -> Result<(), End> {
        let batch = events::read(
            &self.shared.prefix,
            self.shared.offset,
            &self.shared.transformation,
            &response.events,
        );
        if let Some(layout) = batch.layout
            && layout != Some(Layout::new(self.shared.offset.0))
        {
            return Err(End::Other(
                "another program has written the store anew".to_owned(),
            ));
        }
        if let Some(newest) = batch.newest {
            self.reached = newest;
        }
        if let Some(landmark) = batch.landmark {
            self.landmark = landmark;
        }
        self.shared.publish(batch.commits);
        Ok(())
    }

    /// Brings the index from where it is to the present where the history between is gone. Watches that have not
    /// come so far are cut.
    async fn read_anew(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let shared = &self.shared;
        let known = shared.index.revision();
        let mut present = HashSet::new();
        let mut changed: Vec<Entry> = Vec::new();
        let loaded = load::load(connection, &shared.prefix, shared.offset, |record| {
            present.insert(record.key.clone());
            if record.modified > known {
                changed.extend(shared.transformation.opened_record(record).into_entry());
            }
        })
        .await?;
        let listing = shared.index.list("/", None, None, None)?;
        let gone = listing.entries.into_iter().map(|entry| entry.key);
        let gone: Vec<Key> = gone.filter(|key| !present.contains(key)).collect();
        let newest = shared.offset.revision(loaded.newest);
        if newest > known {
            shared.publish(differences(changed, gone, newest));
            shared.index.compact(newest)?;
        }
        self.reached = loaded.at;
        self.landmark = loaded.landmark;
        tracing::warn!(revision = %newest, "etcd's history was compacted meanwhile; everything was read anew");
        Ok(())
    }
}

/// Commits that lead to the present: what changed under the revisions of the last changes, what is gone at the end.
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

/// The next answer of a watch, put together if it came in fragments.
async fn next_response(watch: &mut Streaming<WatchResponse>) -> Result<WatchResponse, End> {
    let mut whole: Option<WatchResponse> = None;
    loop {
        let Some(response) = watch.message().await.map_err(broken)? else {
            return Err(broken(Status::unavailable("the watch ended")));
        };
        if response.compact_revision > 0 {
            return Err(End::Compacted);
        }
        if response.canceled {
            let reason = format!("the watch was cancelled: {}", response.cancel_reason);
            return Err(broken(Status::unavailable(reason)));
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

fn broken(status: Status) -> End {
    End::Broken(told(&status))
}

#[cfg(test)]
mod tests;
