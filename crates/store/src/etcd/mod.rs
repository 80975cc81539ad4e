//! The engine for several servers: etcd holds the data, and every server its index.
//!
//! Each server follows one watch on all keys from the revision that it has read everything at, so its index
//! passes through the same revisions as etcd. A commit is one transaction of etcd, with the expectations as
//! comparisons of revisions; it is acknowledged when it has come back by the watch. Every transaction writes one key,
//! `.commit`: its revision is that of the newest commit, so asking etcd for it and waiting for the index makes a
//! read see whatever was acknowledged before, by any server (not even etcd's notifications of progress tell
//! that: before 3.4.25 and 3.5.8 they may come before the events that they cover).
//!
//! The keys and values are described in [`layout`]. Leases are not used: nothing in the store ends by itself.

mod barrier;
mod compaction;
mod connection;
mod events;
mod follow;
mod import;
mod layout;
mod load;
mod shared;
mod transaction;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use self::barrier::Barrier;
pub use self::connection::EtcdAddress;
use self::connection::{Connection, told};
use self::follow::Follower;
pub(crate) use self::import::{Import, read_etcd};
use self::layout::{Offset, Prefix};
use self::shared::Shared;
use self::transaction::{Outcome, prepare};
use crate::{
    CommitError, HistoryLimits, Index, Key, Revision, Store, StoreError, Transaction, Transformation,
};

/// How often a transaction is prepared anew because the index was behind; each time somebody else's was carried out.
const PREPARATIONS_MAX: usize = 16;
/// How long and how often an etcd that does not answer is tried at the start: it may be starting itself.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);
const OPEN_PAUSE: Duration = Duration::from_millis(500);

/// Choices of the engine.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Where etcd is.
    pub address: EtcdAddress,
    /// History kept in memory for watches and reads in the past.
    pub history: HistoryLimits,
    /// How long etcd's own history is kept; zero leaves it to others.
    pub compaction_interval: Duration,
    /// The form in which values are stored.
    pub transformation: Transformation,
}

/// The engine on etcd. Dropping it ends its tasks.
pub struct EtcdStore {
    shared: Arc<Shared>,
    barrier: Barrier,
    _tasks: JoinSet<()>,
}

impl EtcdStore {
    /// Connects, reads everything into memory, and follows etcd from there. Waits some seconds for an etcd
    /// that does not answer.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if no member can be reached or an option cannot be used,
    /// [`StoreError::Corrupt`] if the prefix is another program's, of a newer version or half copied.
    pub async fn open(options: EtcdOptions) -> Result<EtcdStore, StoreError> {
        let prefix = Prefix::new(&options.address.prefix);
        let endpoints = options.address.endpoints()?;
        let (connection, next) = connect(&endpoints).await?;
        let layout = load::settle_layout(&connection, &prefix).await?;
        let offset = Offset(layout.revision_offset);
        let mut entries = Vec::new();
        let loaded = load::load(&connection, &prefix, offset, |record| {
            entries.extend(options.transformation.opened_record(record).into_entry());
        })
        .await?;
        let index = Index::restore(options.history, offset.revision(loaded.newest), entries);
        let shared = Arc::new(Shared::new(index, prefix, offset, options.transformation));
        let (barrier, asking) = barrier::new(shared.clone());
        let follower = Follower {
            shared: shared.clone(),
            endpoints,
            next,
            reached: loaded.at,
            landmark: loaded.landmark,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run());
        tasks.spawn(asking.run());
        if !options.compaction_interval.is_zero() {
            tasks.spawn(compaction::run(shared.clone(), options.compaction_interval));
        }
        shared.connected().await?;
        Ok(EtcdStore {
            shared,
            barrier,
            _tasks: tasks,
        })
    }

    async fn carry_out(&self, transaction: &Transaction) -> Result<Revision, CommitError> {
        let shared = &*self.shared;
        let stored = shared.transformation.stored(&transaction.writes)?;
        for _ in 0..PREPARATIONS_MAX {
            let mark = fastrand::u64(..);
            let prepared = prepare(
                &shared.prefix,
                shared.offset,
                &shared.index,
                (transaction, &stored),
                mark,
            )?;
            let connection = shared.connection()?;
            let answer = connection.txn(prepared.request.clone()).await;
            let answer = answer.map_err(|status| refused(&status, transaction))?;
            let outcome = prepared.outcome(&shared.prefix, shared.offset, &shared.transformation, answer);
            match outcome.ok_or_else(|| unavailable("an answer of etcd makes no sense"))? {
                Outcome::Done(revision) => {
                    shared.caught_up(revision).await?;
                    return Ok(revision);
                }
                Outcome::Conflict { newest, key, current } => {
                    shared.caught_up(newest).await?;
                    return Err(CommitError::Conflict { key, current });
                }
                Outcome::Misjudged { newest } => shared.caught_up(newest).await?,
            }
        }
        Err(unavailable("what is to be deleted comes and goes").into())
    }

    async fn newest(&self) -> Result<Revision, StoreError> {
        let newest = self.barrier.newest().await?;
        self.shared.caught_up(newest).await?;
        Ok(self.shared.index.revision())
    }

    async fn forget_before(&self, revision: Revision) -> Result<(), StoreError> {
        self.shared.index.compact(revision)?;
        let etcd = self.shared.offset.etcd(revision);
        if etcd <= 0 {
            return Ok(());
        }
        let compacted = compaction::compact(&self.shared.connection()?, etcd).await;
        compacted.map_err(|status| told(&status))
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
        async move { self.carry_out(&transaction).await }.boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.forget_before(revision).boxed()
    }
}

/// A connection to the first member that answers, and which one is next.
async fn connect(endpoints: &[tonic::transport::Endpoint]) -> Result<(Connection, usize), StoreError> {
    let deadline = tokio::time::Instant::now() + OPEN_PATIENCE;
    loop {
        let mut failure = None;
        for (number, endpoint) in endpoints.iter().enumerate() {
            match Connection::open(endpoint).await {
                Ok(connection) => return Ok((connection, number)),
                Err(status) => failure = Some((endpoint.uri(), told(&status))),
            }
        }
        if let Some((server, error)) = failure {
            if tokio::time::Instant::now() >= deadline {
                return Err(unavailable(&format!("{server}: {error}")));
            }
            tracing::warn!(%server, %error, "etcd does not answer; it is tried again");
        }
        tokio::time::sleep(OPEN_PAUSE).await;
    }
}

fn refused(status: &Status, transaction: &Transaction) -> CommitError {
    if status.code() == Code::InvalidArgument {
        tracing::error!(error = %told(status), "etcd does not take a transaction");
        let key = transaction.expectations.first().map(|(key, _)| key.clone());
        return CommitError::Malformed {
            key: key.unwrap_or_else(|| Key::from("")),
            reason: "etcd does not take it: it is too large",
        };
    }
    CommitError::Store(told(status))
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable {
        reason: reason.to_owned(),
    }
}
