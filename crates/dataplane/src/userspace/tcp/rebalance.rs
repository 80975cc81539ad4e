//! Distribution of connections after a scale-out: each worker reports its connections, and the last one decides.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::lifetime::{AgeLimit, Lifetime};
use crate::rebalance::excess_connections;

/// A listener whose connections are distributed again.
#[derive(Debug)]
pub(crate) struct Group {
    /// Identity of the listener.
    pub listener: Arc<AgeLimit>,
    /// Current endpoints.
    pub endpoints: Vec<SocketAddr>,
    /// Maximum share of connections that end.
    pub percent: u8,
}

/// A connection of one worker. Its number may belong to a later connection, so the start identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionId {
    /// Index of the worker.
    pub worker: usize,
    /// Number of the connection in the worker.
    pub number: usize,
    /// Start of the connection.
    pub began_at: Instant,
}

/// Reports of all workers about some listeners.
#[derive(Debug)]
pub(super) struct Round {
    groups: Vec<Group>,
    /// Indexes of the groups by the address of their identity, which `groups` keeps alive.
    indexes: HashMap<usize, usize>,
    reports: Mutex<Reports>,
}

/// Reports of the workers about their connections.
#[derive(Debug)]
struct Reports {
    /// Number of workers that have not reported.
    missing: usize,
    /// Connections by group; as many as there are permits at most.
    connections: Vec<Vec<ReportedConnection>>,
}

/// A reported connection.
#[derive(Clone, Copy, Debug)]
struct ReportedConnection {
    id: ConnectionId,
    endpoint: SocketAddr,
}

/// Report of one worker.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<(usize, ReportedConnection)>);

impl Round {
    /// Starts a round of this many workers.
    pub(super) fn new(groups: Vec<Group>, workers: usize) -> Self {
        let indexes = groups.iter().enumerate();
        Self {
            indexes: indexes
                .map(|(index, group)| (identity(&group.listener), index))
                .collect(),
            reports: Mutex::new(Reports {
                missing: workers,
                connections: groups.iter().map(|_| Vec::new()).collect(),
            }),
            groups,
        }
    }

    /// Adds a connection to a report, if it belongs to one of the listeners.
    pub(super) fn add(
        &self,
        report: &mut Report,
        lifetime: &Lifetime,
        id: ConnectionId,
        endpoint: SocketAddr,
    ) {
        if let Some(index) = self.indexes.get(&identity(lifetime.limit())) {
            report.0.push((*index, ReportedConnection { id, endpoint }));
        }
    }

    /// Takes the report of a worker. The last one returns the connections that end.
    pub(super) fn take(&self, report: Report) -> Vec<ConnectionId> {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, reported) in report.0 {
            if let Some(connections) = reports.connections.get_mut(index) {
                connections.push(reported);
            }
        }
        reports.missing = reports.missing.saturating_sub(1);
        if reports.missing > 0 {
            return Vec::new();
        }
        let connections = std::mem::take(&mut reports.connections);
        let chosen = connections.into_iter().zip(&self.groups);
        chosen
            .flat_map(|(connections, group)| {
                excess_connections(
                    connections,
                    &group.endpoints,
                    group.percent,
                    |connection| connection.endpoint,
                    |connection| connection.id.began_at,
                )
            })
            .map(|connection| connection.id)
            .collect()
    }
}

fn identity(listener: &Arc<AgeLimit>) -> usize {
    Arc::as_ptr(listener).addr()
}

#[cfg(test)]
mod tests;
