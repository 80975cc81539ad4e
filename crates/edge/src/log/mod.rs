//! Access log: a line for each request, and for each connection of listeners without requests.
//!
//! Lines are collected for each Service, and written as one file at an interval. Traffic does not wait for the log:
//! lines that cannot be queued or written are counted and dropped.
//!
//! - `line`: formats of a line
//! - `memory`: bound of the lines of a namespace
//! - `batch`: the lines of a file, and its name
//! - `destinations`: directory and buckets
//! - `quota`: limits of the directory
//! - `writer`: from the queue to the file

mod batch;
mod destinations;
mod line;
mod memory;
mod quota;
mod writer;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use counting::SharedValues;
use object_store::ObjectStore;
use telemetry::{MetricType, MetricsText};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::peer::Peer;
use crate::settings::{AccessLog, LogDestination, ServiceName};
use destinations::DestinationError;
pub use destinations::{Destinations, S3};
use memory::Memory;
pub use quota::DirectoryLimits;
use quota::Quota;
use writer::{RetryPolicy, Writer};

#[cfg(test)]
mod tests;

/// Maximum number of queued lines of a Service. A busy node writes as many in some tens of milliseconds. [`Memory`]
/// bounds their bytes.
const QUEUE_LINES_MAX: usize = 8192;

/// All access logs, which tasks of one runtime write.
#[derive(Debug)]
pub struct Logs {
    destinations: Destinations,
    runtime: Handle,
    services: Mutex<HashMap<ServiceName, LogEntry>>,
    /// Memory of the lines of each namespace, in use until the last file is written.
    memories: SharedValues<Memory>,
    /// Stores in use, which Services share, because each client of a bucket has connections of its own.
    stores: Mutex<Vec<(LogDestination, Weak<dyn ObjectStore>)>>,
    /// Limits of the directory, once it is in use.
    quota: Mutex<Option<Arc<Quota>>>,
    /// Counts the times at which a log ran out of space, or had space again.
    space_changed: Arc<watch::Sender<u64>>,
    finish: watch::Sender<bool>,
    retries: RetryPolicy,
}

/// Log of a Service, and its counters.
#[derive(Debug)]
struct LogEntry {
    log: Weak<Log>,
    counts: Arc<Counts>,
}

/// Access log of a Service. After the last owner has dropped it, the gathered lines are written.
#[derive(Debug)]
pub struct Log {
    settings: AccessLog,
    queue: mpsc::Sender<String>,
    memory: Arc<Memory>,
    counts: Arc<Counts>,
    fault: Option<String>,
}

/// Counts of lines and files.
#[derive(Debug, Default)]
struct Counts {
    written_files: AtomicU64,
    /// Lines that the full queue, or the full memory of the namespace, did not take.
    dropped_lines: AtomicU64,
    /// Lines that could not be written.
    lost_lines: AtomicU64,
    /// Lines that were not written, because the directory has no space.
    unwritten_lines: AtomicU64,
    pause_reason: Mutex<Option<String>>,
}

impl Counts {
    fn count_file(&self) {
        self.written_files.fetch_add(1, Ordering::Relaxed);
    }

    fn count_dropped(&self) {
        self.dropped_lines.fetch_add(1, Ordering::Relaxed);
    }

    fn count_lost(&self, lines: u64) {
        self.lost_lines.fetch_add(lines, Ordering::Relaxed);
    }

    fn count_unwritten(&self, lines: u64) {
        self.unwritten_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// Sets or clears the reason why no lines are written. Returns true if the reason changes.
    fn set_pause_reason(&self, reason: Option<String>) -> bool {
        let mut former = self.pause_reason.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *former != reason;
        *former = reason;
        has_changed
    }
}

/// Request or connection that has ended.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Service of the listener.
    pub service: &'a ServiceName,
    /// Port of the listener.
    pub port: u16,
    /// Start: for a request, the time when its head was complete.
    pub started_at: SystemTime,
    /// Time from the start to the end.
    pub duration: Duration,
    /// Remote end of the connection.
    pub peer: &'a Peer,
    /// Backend; `None` if the edge itself responded, or no backend took the connection.
    pub backend: Option<SocketAddr>,
    /// Bytes from the client; for a request, of its body.
    pub received_bytes: u64,
    /// Bytes to the client; for a request, of its response's body.
    pub sent_bytes: u64,
    /// End: `ok`, `no route`, `misdirected`, `no backend`, `backend failed`, `backend left`, `timeout`, `client left`,
    /// `idle`, `reset` or `shutdown`.
    pub outcome: &'static str,
}

/// Request that has ended.
#[derive(Clone, Debug)]
pub struct RequestRecord<'a> {
    /// Fields that connections have too.
    pub record: Record<'a>,
    /// Method of the request.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Version, for example `HTTP/1.1`.
    pub version: &'static str,
    /// Requested host.
    pub host: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// `User-Agent`.
    pub user_agent: Option<&'a str>,
    /// Status of the response.
    pub status: u16,
}

impl Logs {
    /// Starts without any log.
    pub fn start(destinations: Destinations, runtime: Handle) -> Self {
        Self {
            destinations,
            runtime,
            services: Mutex::default(),
            memories: SharedValues::default(),
            stores: Mutex::default(),
            quota: Mutex::default(),
            space_changed: Arc::default(),
            finish: watch::Sender::new(false),
            retries: RetryPolicy::default(),
        }
    }

    /// Opens the log of a Service. Called again with equal settings, it returns the same log. If the destination
    /// cannot be used ([`Log::fault`]), all lines count as lost.
    pub fn open(&self, service: &ServiceName, settings: &AccessLog) -> Arc<Log> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = None;
        if let Some(entry) = services.get(service) {
            match entry.log.upgrade() {
                Some(log) if log.settings == *settings => return log,
                _ => counts = Some(entry.counts.clone()),
            }
        }
        services.retain(|_, entry| entry.log.strong_count() > 0);
        let counts = counts.unwrap_or_default();
        let (queue, lines) = mpsc::channel(QUEUE_LINES_MAX);
        let memory = self.memories.get(&service.namespace, Memory::default);
        let fault = match self.store(&settings.destination) {
            Ok(store) => {
                let queue = (lines, Arc::clone(&memory));
                self.spawn_writer(service, settings, store, counts.clone(), queue);
                None
            }
            Err(error) => {
                tracing::warn!(%service, %error, "access log not opened");
                Some(error.to_string())
            }
        };
        let log = Arc::new(Log {
            settings: settings.clone(),
            queue,
            memory,
            counts: counts.clone(),
            fault,
        });
        services.insert(
            service.clone(),
            LogEntry {
                log: Arc::downgrade(&log),
                counts,
            },
        );
        log
    }

    fn store(&self, destination: &LogDestination) -> Result<Arc<dyn ObjectStore>, DestinationError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|(_, store)| store.strong_count() > 0);
        let entry = stores.iter().find(|(of, _)| of == destination);
        if let Some(store) = entry.and_then(|(_, store)| store.upgrade()) {
            return Ok(store);
        }
        let store = self.destinations.store(destination)?;
        stores.push((destination.clone(), Arc::downgrade(&store)));
        Ok(store)
    }

    fn spawn_writer(
        &self,
        service: &ServiceName,
        settings: &AccessLog,
        store: Arc<dyn ObjectStore>,
        counts: Arc<Counts>,
        (lines, memory): (mpsc::Receiver<String>, Arc<Memory>),
    ) {
        let writer = Writer {
            service: service.clone(),
            host: self.destinations.host().into(),
            settings: settings.clone(),
            quota: self.quota(&settings.destination, &store),
            space_changed: Arc::clone(&self.space_changed),
            store,
            retries: self.retries,
            memory,
            counts,
        };
        drop(self.runtime.spawn(writer.run(lines, self.finish.subscribe())));
    }

    /// Returns the limits of a destination, if it is the directory.
    fn quota(&self, destination: &LogDestination, store: &Arc<dyn ObjectStore>) -> Option<Arc<Quota>> {
        let directory = match destination {
            LogDestination::Directory => self.destinations.directory.clone()?,
            LogDestination::Bucket(_) => return None,
        };
        let mut quota = self.quota.lock().unwrap_or_else(PoisonError::into_inner);
        let quota = quota.get_or_insert_with(|| {
            Arc::new(Quota::new(
                self.destinations.directory_limits,
                directory,
                self.destinations.host().into(),
                Arc::clone(store),
                quota::space,
            ))
        });
        Some(Arc::clone(quota))
    }

    /// Changes when a log runs out of space or has space again, and so when [`Log::fault`] changes.
    pub(crate) fn watch_space(&self) -> watch::Receiver<u64> {
        self.space_changed.subscribe()
    }

    /// Takes no more lines, and completes when the gathered ones are written.
    pub async fn finish(&self) {
        self.finish.send_replace(true);
        self.finish.closed().await;
    }

    /// Appends the metrics of all logs.
    pub fn write_metrics(&self, text: &mut MetricsText) {
        const FILES: &str = "portolan_edge_access_log_files_total";
        const LINES: &str = "portolan_edge_access_log_dropped_lines_total";
        const BYTES: &str = "portolan_edge_access_log_directory_bytes";
        const REMOVED: &str = "portolan_edge_access_log_removed_files_total";
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> = services
            .iter()
            .map(|(service, entry)| (service, &entry.counts))
            .collect();
        counts.sort_by_key(|(service, _)| *service);
        let labels = |service: &ServiceName| {
            format!("namespace=\"{}\",service=\"{}\"", service.namespace, service.name)
        };
        text.family(FILES, MetricType::Counter, "Number of access log files written.");
        for (service, counts) in &counts {
            text.sample(
                FILES,
                &labels(service),
                counts.written_files.load(Ordering::Relaxed),
            );
        }
        text.family(
            LINES,
            MetricType::Counter,
            "Number of access log lines dropped, by reason.",
        );
        for (service, counts) in &counts {
            for (reason, count) in [
                ("queue", &counts.dropped_lines),
                ("destination", &counts.lost_lines),
                ("space", &counts.unwritten_lines),
            ] {
                let labels = format!("{},reason=\"{reason}\"", labels(service));
                text.sample(LINES, &labels, count.load(Ordering::Relaxed));
            }
        }
        let quota = self.quota.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((bytes, removed)) = quota.as_ref().map(|quota| quota.counts()) else {
            return;
        };
        text.single(
            BYTES,
            MetricType::Gauge,
            "Size of the access log directory in bytes.",
            bytes,
        );
        text.family(
            REMOVED,
            MetricType::Counter,
            "Number of access log files removed to stay within the quota of the directory.",
        );
        for (service, count) in &removed {
            text.sample(REMOVED, &labels(service), *count);
        }
    }
}

impl Log {
    /// Returns the reason why all lines are lost, if they are.
    pub fn fault(&self) -> Option<String> {
        let pause_reason = || {
            let reason = self
                .counts
                .pause_reason
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            reason.clone()
        };
        self.fault.clone().or_else(pause_reason)
    }

    /// Returns the number of lines that were dropped or could not be written.
    pub fn lost_lines(&self) -> u64 {
        let counts = &self.counts;
        let counts = [&counts.dropped_lines, &counts.lost_lines, &counts.unwritten_lines];
        counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Queues the line of a request, or counts it as dropped if the queue or the memory is full.
    pub fn request(&self, record: &RequestRecord<'_>) {
        self.push(line::of_request(record, self.settings.format));
    }

    /// Queues the line of a connection, or counts it as dropped if the queue or the memory is full.
    pub fn connection(&self, record: &Record<'_>) {
        self.push(line::of_connection(record, self.settings.format));
    }

    fn push(&self, line: String) {
        let bytes = line.len();
        if !self.memory.add(bytes) {
            self.counts.count_dropped();
            return;
        }
        let Err(error) = self.queue.try_send(line) else {
            return;
        };
        self.memory.remove(bytes);
        match error {
            mpsc::error::TrySendError::Full(_) => self.counts.count_dropped(),
            mpsc::error::TrySendError::Closed(_) => self.counts.count_lost(1),
        }
    }
}
