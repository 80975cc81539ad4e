//! The access log: a line for each request, and for each connection of listeners that know no requests. Lines are gathered
//! per Service and written as a file at an interval. Traffic never waits for it: what cannot be queued or written is counted.
//!
//! - `line`: what a line looks like
//! - `part`: which lines make a file, when, and under what name
//! - `places`: directory and bucket
//! - `quota`: what they may take of the directory
//! - `writer`: from the queue to the file

mod line;
mod part;
mod places;
mod quota;
mod writer;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use object_store::ObjectStore;
use telemetry::{MetricType, MetricsText};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::peer::Peer;
use crate::settings::{AccessLog, LogDestination, ServiceName};
use places::PlaceError;
pub use places::{Places, S3};
pub use quota::DirectoryLimits;
use quota::Quota;
use writer::{Tries, Writer};

#[cfg(test)]
mod tests;

/// Lines of a Service that wait to be gathered: what comes within some tens of milliseconds on a busy machine.
const QUEUE_LINES_MAX: usize = 8192;

/// All access logs. They are written by tasks of the runtime that it was given.
#[derive(Debug)]
pub struct Logs {
    places: Places,
    runtime: Handle,
    services: Mutex<HashMap<ServiceName, Known>>,
    /// Places that are in use, as Services commonly share them: a client of a bucket is dear to make.
    stores: Mutex<Vec<(LogDestination, Weak<dyn ObjectStore>)>>,
    /// The bounds of the directory, once it is in use.
    quota: Mutex<Option<Arc<Quota>>>,
    /// Counts how often a log found no room, or found room again.
    room_changed: Arc<watch::Sender<u64>>,
    finish: watch::Sender<bool>,
    tries: Tries,
}

#[derive(Debug)]
struct Known {
    log: Weak<Log>,
    counts: Arc<Counts>,
}

/// The access log of a Service. When the last one who has it drops it, what is gathered is written.
#[derive(Debug)]
pub struct Log {
    settings: AccessLog,
    queue: mpsc::Sender<String>,
    counts: Arc<Counts>,
    fault: Option<String>,
}

/// Why files of a log are not written at the moment.
type NoRoomNow = Mutex<Option<String>>;

/// What became of lines.
#[derive(Debug, Default)]
struct Counts {
    written_files: AtomicU64,
    /// Found no room in the queue.
    dropped_lines: AtomicU64,
    /// Could not be written.
    lost_lines: AtomicU64,
    /// Were not written, since the directory has no room.
    unwritten_lines: AtomicU64,
    no_room: NoRoomNow,
}

impl Counts {
    fn add_file(&self) {
        self.written_files.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_line(&self) {
        self.dropped_lines.fetch_add(1, Ordering::Relaxed);
    }

    fn lose(&self, lines: u64) {
        self.lost_lines.fetch_add(lines, Ordering::Relaxed);
    }

    fn leave_out(&self, lines: u64) {
        self.unwritten_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// There is no room for this reason, or there is; whether that is news.
    fn set_no_room(&self, why: Option<String>) -> bool {
        let mut is = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *is != why;
        *is = why;
        has_changed
    }
}

/// What has ended: a request, answered or given up, or a connection of a TCP or SSL listener.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The Service.
    pub service: &'a ServiceName,
    /// The listener's port.
    pub port: u16,
    /// When it began: for a request, when its head had come.
    pub began: SystemTime,
    /// From then on to its end.
    pub duration: Duration,
    /// Whose it was.
    pub peer: &'a Peer,
    /// Who answered it, or where it went; nobody if the edge answered, or no backend took it.
    pub backend: Option<SocketAddr>,
    /// Bytes from the client; for a request, of its body.
    pub received_bytes: u64,
    /// Bytes to the client; for a request, of its answer's body.
    pub sent_bytes: u64,
    /// How it ended, as `ok`, `no backend`, `backend failed`, `backend left`, `timeout`, `client left`, `idle`, `reset`, `shutdown`.
    pub outcome: &'static str,
}

/// What is known of a request besides.
#[derive(Clone, Debug)]
pub struct RequestRecord<'a> {
    /// What is known of connections, too.
    pub record: Record<'a>,
    /// Its method.
    pub method: &'a str,
    /// Its path and query.
    pub target: &'a str,
    /// `HTTP/1.1` and the like.
    pub version: &'static str,
    /// The host that it was for.
    pub host: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// `User-Agent`.
    pub user_agent: Option<&'a str>,
    /// The answer's status.
    pub status: u16,
}

impl Logs {
    /// Begins.
    pub fn start(places: Places, runtime: Handle) -> Self {
        Self {
            places,
            runtime,
            services: Mutex::default(),
            stores: Mutex::default(),
            quota: Mutex::default(),
            room_changed: Arc::default(),
            finish: watch::Sender::new(false),
            tries: Tries::default(),
        }
    }

    /// The log of a Service. Called anew when its settings change; equal settings lead to the same log. With a destination
    /// that cannot be used ([`Log::fault`]), all its lines count as lost.
    pub fn of(&self, service: &ServiceName, settings: &AccessLog) -> Arc<Log> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = None;
        if let Some(known) = services.get(service) {
            match known.log.upgrade() {
                Some(log) if log.settings == *settings => return log,
                _ => counts = Some(known.counts.clone()),
            }
        }
        services.retain(|_, known| known.log.strong_count() > 0);
        let counts = counts.unwrap_or_default();
        let (queue, lines) = mpsc::channel(QUEUE_LINES_MAX);
        let fault = match self.store(&settings.destination) {
            Ok(store) => {
                self.write(service, settings, store, counts.clone(), lines);
                None
            }
            Err(error) => {
                tracing::warn!(%service, %error, "there is no access log");
                Some(error.to_string())
            }
        };
        let log = Arc::new(Log {
            settings: settings.clone(),
            queue,
            counts: counts.clone(),
            fault,
        });
        services.insert(
            service.clone(),
            Known {
                log: Arc::downgrade(&log),
                counts,
            },
        );
        log
    }

    fn store(&self, destination: &LogDestination) -> Result<Arc<dyn ObjectStore>, PlaceError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|(_, store)| store.strong_count() > 0);
        let known = stores.iter().find(|(known, _)| known == destination);
        if let Some(store) = known.and_then(|(_, store)| store.upgrade()) {
            return Ok(store);
        }
        let store = self.places.store(destination)?;
        stores.push((destination.clone(), Arc::downgrade(&store)));
        Ok(store)
    }

    fn write(
        &self,
        service: &ServiceName,
        settings: &AccessLog,
        store: Arc<dyn ObjectStore>,
        counts: Arc<Counts>,
        lines: mpsc::Receiver<String>,
    ) {
        let writer = Writer {
            service: service.clone(),
            host: self.places.host().into(),
            settings: settings.clone(),
            quota: self.quota(&settings.destination, &store),
            room_changed: Arc::clone(&self.room_changed),
            store,
            tries: self.tries,
            counts,
        };
        drop(self.runtime.spawn(writer.run(lines, self.finish.subscribe())));
    }

    /// The bounds of a destination, if it is the directory.
    fn quota(&self, destination: &LogDestination, store: &Arc<dyn ObjectStore>) -> Option<Arc<Quota>> {
        let directory = match destination {
            LogDestination::Directory => self.places.directory.clone()?,
            LogDestination::Bucket(_) => return None,
        };
        let mut known = self.quota.lock().unwrap_or_else(PoisonError::into_inner);
        let quota = known.get_or_insert_with(|| {
            Arc::new(Quota::new(
                self.places.directory_limits,
                directory,
                self.places.host().into(),
                Arc::clone(store),
                quota::space,
            ))
        });
        Some(Arc::clone(quota))
    }

    /// Changes when a log finds no room, or finds room again: then [`Log::fault`] says something else.
    pub(crate) fn follow_room(&self) -> watch::Receiver<u64> {
        self.room_changed.subscribe()
    }

    /// Takes no more lines, writes what is gathered, and returns when that is done.
    pub async fn finish(&self) {
        self.finish.send_replace(true);
        self.finish.closed().await;
    }

    /// Metrics of all logs.
    pub fn metrics(&self, text: &mut MetricsText) {
        const FILES: &str = "portolan_edge_access_log_files_total";
        const LINES: &str = "portolan_edge_access_log_dropped_lines_total";
        const BYTES: &str = "portolan_edge_access_log_directory_bytes";
        const REMOVED: &str = "portolan_edge_access_log_removed_files_total";
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<_> = services
            .iter()
            .map(|(service, known)| (service, &known.counts))
            .collect();
        known.sort_by_key(|(service, _)| *service);
        let labels = |service: &ServiceName| {
            format!("namespace=\"{}\",service=\"{}\"", service.namespace, service.name)
        };
        text.family(FILES, MetricType::Counter, "Number of access log files written.");
        for (service, counts) in &known {
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
        for (service, counts) in &known {
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
    /// Why all lines are lost, if they are.
    pub fn fault(&self) -> Option<String> {
        let no_room = || {
            let why = self.counts.no_room.lock().unwrap_or_else(PoisonError::into_inner);
            why.clone()
        };
        self.fault.clone().or_else(no_room)
    }

    /// Lines that were dropped or could not be written.
    pub fn lost_lines(&self) -> u64 {
        let counts = &self.counts;
        let counts = [&counts.dropped_lines, &counts.lost_lines, &counts.unwritten_lines];
        counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Writes down a request. It never waits: what there is no room for is counted and dropped.
    pub fn request(&self, record: &RequestRecord<'_>) {
        self.push(line::of_request(record, self.settings.format));
    }

    /// Writes down a connection. It never waits: what there is no room for is counted and dropped.
    pub fn connection(&self, record: &Record<'_>) {
        self.push(line::of_connection(record, self.settings.format));
    }

    fn push(&self, line: String) {
        match self.queue.try_send(line) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.counts.drop_line(),
            Err(mpsc::error::TrySendError::Closed(_)) => self.counts.lose(1),
        }
    }
}
