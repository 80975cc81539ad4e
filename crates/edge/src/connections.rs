//! Table of a worker's connections, by which they can be aborted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;
use tokio::task::AbortHandle;

use crate::backends::Backend;

/// Connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable(Mutex<Slab<Connection>>);

/// An open connection.
#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    backend: Option<Arc<Backend>>,
}

impl ConnectionTable {
    /// Adds a connection, whose task `spawn` starts with the connection's slot.
    ///
    /// The table stays locked meanwhile. The task must run on the calling thread. It therefore cannot run, and drop its
    /// slot, before the entry exists.
    pub(crate) fn insert(self: &Arc<Self>, spawn: impl FnOnce(ConnectionSlot) -> AbortHandle) {
        let mut connections = self.lock();
        let entry = connections.vacant_entry();
        let slot = ConnectionSlot {
            table: self.clone(),
            key: entry.key(),
        };
        entry.insert(Connection {
            task: spawn(slot),
            backend: None,
        });
    }

    /// Aborts the connections to a backend.
    pub(crate) fn abort_to(&self, backend: &Arc<Backend>) {
        self.abort(|connection| {
            let of = connection.backend.as_ref();
            of.is_some_and(|of| Arc::ptr_eq(of, backend))
        });
    }

    /// Aborts all connections.
    pub(crate) fn abort_all(&self) {
        self.abort(|_| true);
    }

    fn abort(&self, is_chosen: impl Fn(&Connection) -> bool) {
        let connections = self.lock();
        let chosen = connections.iter().filter(|(_, connection)| is_chosen(connection));
        let tasks: Vec<AbortHandle> = chosen.map(|(_, connection)| connection.task.clone()).collect();
        // An aborted task may drop its slot at once, which takes the lock.
        drop(connections);
        tasks.iter().for_each(AbortHandle::abort);
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's entry in the table, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    key: usize,
}

impl ConnectionSlot {
    /// Records the backend to which the connection goes.
    pub(crate) fn set_backend(&self, backend: &Arc<Backend>) {
        if let Some(connection) = self.table.lock().get_mut(self.key) {
            connection.backend = Some(backend.clone());
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let removed = self.table.lock().try_remove(self.key);
        // The backend may be dropped with the entry, and that must not happen under the lock.
        drop(removed);
    }
}
