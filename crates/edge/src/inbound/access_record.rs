//! Access-log record of a relayed connection.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::backends::ChosenBackend;
use crate::log::Record;
use crate::peer::Peer;
use crate::port::{Port, PortSettings};
use crate::relay::{RelayOutcome, RelayedBytes};

/// Record of a connection. It is logged when it is dropped, also if the connection is aborted.
pub(super) struct AccessRecord<'a> {
    peer: &'a Peer,
    port: &'a Port,
    settings: &'a PortSettings,
    /// Start of the connection, if it is logged.
    started_at: Option<(SystemTime, Instant)>,
    /// Backend. The connection counts as in use there until this is dropped.
    pub chosen: Option<ChosenBackend>,
    /// Bytes so far.
    pub relayed: RelayedBytes,
    /// Reason of the end; `None` if the connection is aborted.
    pub end: Option<ConnectionEnd>,
}

/// Reason why a connection ended by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConnectionEnd {
    /// No backend took it.
    NoBackend,
    /// The backend was removed while the connection to it was opened, and its drain time is over.
    BackendRemoved,
    /// The connection reached its maximum age.
    Age,
    /// The relay ended.
    Relayed(RelayOutcome),
}

impl<'a> AccessRecord<'a> {
    /// Starts the record of a connection whose client is known.
    pub(super) fn new(peer: &'a Peer, port: &'a Port, settings: &'a PortSettings) -> Self {
        let log = settings.log.as_ref();
        Self {
            peer,
            port,
            settings,
            started_at: log.map(|_| (SystemTime::now(), Instant::now())),
            chosen: None,
            relayed: RelayedBytes::default(),
            end: None,
        }
    }

    fn outcome(&self) -> &'static str {
        let is_cut_off = |chosen: &ChosenBackend| chosen.backend.is_cut_off();
        match self.end {
            Some(ConnectionEnd::NoBackend) => "no backend",
            Some(ConnectionEnd::Relayed(outcome)) => outcome.as_str(),
            Some(ConnectionEnd::Age) => "age",
            Some(ConnectionEnd::BackendRemoved) => "backend left",
            None if self.chosen.as_ref().is_some_and(is_cut_off) => "backend left",
            None => "shutdown",
        }
    }
}

impl Drop for AccessRecord<'_> {
    fn drop(&mut self) {
        let (Some(log), Some((started_at, started))) = (&self.settings.log, self.started_at) else {
            return;
        };
        log.connection(&Record {
            service: &self.port.key.service,
            port: self.port.key.port,
            started_at,
            duration: started.elapsed(),
            peer: self.peer,
            backend: self.chosen.as_ref().map(|chosen| chosen.backend.address),
            received_bytes: self.relayed.received,
            sent_bytes: self.relayed.sent,
            outcome: self.outcome(),
        });
    }
}
