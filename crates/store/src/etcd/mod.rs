//! The engine for several API servers: etcd stores the data, and each server has an index.
//!
//! Each server follows one watch on all keys, so its index passes through the same revisions as etcd. A commit is one
//! etcd transaction with the expectations as comparisons of revisions. The commit is acknowledged when the watch has
//! delivered it.
//!
//! Each transaction writes the key `.commit`, whose revision is that of the newest commit. A consistent read queries
//! it and waits until the index has that revision. It therefore includes all writes that any server acknowledged
//! before. etcd's progress notifications do not guarantee that. Before 3.4.25 and 3.5.8 they may arrive before the
//! events that they cover.
//!
//! [`layout`] describes keys and values. The engine uses no leases of etcd, because keys do not expire.

mod barrier;
mod compaction;
mod connection;
mod events;
mod follow;
mod import;
mod layout;
mod load;
mod state;
mod transaction;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use self::barrier::Barrier;
pub use self::connection::EtcdAddress;
use self::connection::{Connection, store_error};
use self::follow::Follower;
pub(crate) use self::import::{Import, read_etcd};
use self::layout::{Offset, Prefix};
use self::state::EtcdState;
use self::transaction::{Outcome, prepare};
use crate::write_health::WriteHealth;
use crate::{
    CommitError, HistoryLimits, Index, Key, Revision, Store, StoreError, Transaction, Transformation,
};

/// Limit of attempts to prepare a transaction again because the index was outdated. Before each further attempt,
/// another transaction was committed.
const ATTEMPTS_MAX: usize = 16;
/// Timeout and period of attempts to connect at start: etcd may be starting too.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_RETRY_PERIOD: Duration = Duration::from_millis(500);

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// Address of etcd.
    pub address: EtcdAddress,
    /// History in memory, for watches and reads of the past.
    pub history: HistoryLimits,
    /// Period for which etcd keeps its history; zero disables compaction by this engine.
    pub compaction_interval: Duration,
    /// Transformation of stored values.
    pub transformation: Transformation,
}

/// The etcd engine. Dropping it ends its tasks.
pub struct EtcdStore {
    shared: Arc<EtcdState>,
    barrier: Barrier,
    write_health: WriteHealth,
    _tasks: JoinSet<()>,
}

impl EtcdStore {
    /// Connects, loads all data into memory, and follows etcd from there. Waits a few seconds for an etcd that does
    /// not respond.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if no member is reachable or an option is invalid. Returns
    /// [`StoreError::Corrupt`] if the prefix belongs to another program, a newer version or an incomplete copy.
    pub async fn open(settings: EtcdSettings) -> Result<EtcdStore, StoreError> {
        let prefix = Prefix::new(&settings.address.prefix);
        let endpoints = settings.address.endpoints()?;
        let (connection, next) = connect(&endpoints).await?;
        let layout = load::ensure_layout(&connection, &prefix).await?;
        let offset = Offset(layout.revision_offset);
        let mut entries = Vec::new();
        let loaded = load::load(&connection, &prefix, offset, |record| {
            entries.extend(settings.transformation.open_record(record).into_entry());
        })
        .await?;
        let index = Index::restore(settings.history, offset.revision(loaded.newest), entries);
        let shared = Arc::new(EtcdState::new(index, prefix, offset, settings.transformation));
        let (barrier, barrier_task) = barrier::new(shared.clone());
        let follower = Follower {
            shared: shared.clone(),
            endpoints,
            next,
            reached: loaded.revision,
            history_mark: loaded.history_mark,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run());
        tasks.spawn(barrier_task.run());
        if !settings.compaction_interval.is_zero() {
            tasks.spawn(compaction::run(shared.clone(), settings.compaction_interval));
        }
        shared.connected().await?;
        Ok(EtcdStore {
            shared,
            barrier,
            write_health: WriteHealth::default(),
            _tasks: tasks,
        })
    }

    async fn commit_with_retries(&self, transaction: &Transaction) -> Result<Revision, CommitError> {
        let shared = &*self.shared;
        let stored = shared.transformation.to_stored(&transaction.writes)?;
        for _ in 0..ATTEMPTS_MAX {
            let mark = fastrand::u64(..);
            let prepared = prepare(
                &shared.prefix,
                shared.offset,
                &shared.index,
                (transaction, &stored),
                mark,
            )?;
            let connection = shared.connection()?;
            let response = connection.txn(prepared.request.clone()).await;
            let response = response.map_err(|status| commit_error(&status, transaction))?;
            let outcome = prepared.outcome(&shared.prefix, shared.offset, &shared.transformation, response);
            match outcome.ok_or_else(|| unavailable("malformed response from etcd"))? {
                Outcome::Committed(revision) => {
                    shared.wait_for_revision(revision).await?;
                    return Ok(revision);
                }
                Outcome::Conflict { newest, key, current } => {
                    shared.wait_for_revision(newest).await?;
                    return Err(CommitError::Conflict { key, current });
                }
                Outcome::StaleIndex { newest } => shared.wait_for_revision(newest).await?,
            }
        }
        Err(unavailable("conflicting transactions, the keys to delete keep changing").into())
    }

    async fn newest(&self) -> Result<Revision, StoreError> {
        let newest = self.barrier.newest().await?;
        self.shared.wait_for_revision(newest).await?;
        Ok(self.shared.index.revision())
    }

    async fn compact_before(&self, revision: Revision) -> Result<(), StoreError> {
        self.shared.index.compact(revision)?;
        let etcd = self.shared.offset.etcd(revision);
        if etcd <= 0 {
            return Ok(());
        }
        let compacted = compaction::compact(&self.shared.connection()?, etcd).await;
        compacted.map_err(|status| store_error(&status))
    }
}

impl Store for EtcdStore {
    fn index(&self) -> &Index {
        &self.shared.index
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn lost(&self) -> BoxFuture<'_, StoreError> {
        self.shared.wait_lost().boxed()
    }

    fn read_barrier(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.newest().boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, CommitError>> {
        async move {
            let result = self.commit_with_retries(&transaction).await;
            self.write_health.record(&result);
            result
        }
        .boxed()
    }

    fn write_failure(&self) -> Option<String> {
        self.write_health.failure()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.compact_before(revision).boxed()
    }
}

/// Connects to the first member that responds; returns the connection and the number of the member.
async fn connect(endpoints: &[tonic::transport::Endpoint]) -> Result<(Connection, usize), StoreError> {
    let deadline = tokio::time::Instant::now() + CONNECT_TIMEOUT;
    loop {
        let mut failure = None;
        for (number, endpoint) in endpoints.iter().enumerate() {
            match Connection::open(endpoint).await {
                Ok(connection) => return Ok((connection, number)),
                Err(status) => failure = Some((endpoint.uri(), store_error(&status))),
            }
        }
        if let Some((server, error)) = failure {
            if tokio::time::Instant::now() >= deadline {
                return Err(unavailable(&format!("{server}: {error}")));
            }
            tracing::warn!(%server, %error, "etcd not reachable; retrying");
        }
        tokio::time::sleep(CONNECT_RETRY_PERIOD).await;
    }
}

fn commit_error(status: &Status, transaction: &Transaction) -> CommitError {
    if status.code() == Code::InvalidArgument {
        tracing::error!(error = %store_error(status), "transaction rejected by etcd");
        let key = transaction.expectations.first().map(|(key, _)| key.clone());
        return CommitError::Malformed {
            key: key.unwrap_or_else(|| Key::from("")),
            reason: "it is larger than etcd accepts",
        };
    }
    CommitError::Store(store_error(status))
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable {
        reason: reason.to_owned(),
    }
}
