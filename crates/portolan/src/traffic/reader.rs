//! Samples and events of connection tracking on this node.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::object::Protocol;
use dataplane::ebpf::{ClientConnections, FrontendsOfConnections, default_pins};
use explain::traffic::{self, Attribution, Entry, Limits, NodeFlows, RowSelection, Tracker};
use jiff::Timestamp;
use netlink::conntrack::{Conntrack, ConntrackError, Event, EventRead, Events};

use super::conntrack_entry::entry;
use super::kernel_settings;

/// Maximum number of events of one second that are read. More of them would occupy a processor of the node; the kernel
/// drops them, and the report has a note.
const EVENTS_PER_SECOND_MAX: usize = 50_000;
/// Events between two readings of the clock.
const EVENTS_PER_CLOCK_READ: usize = 1_000;
/// Maximum time between two readings of the stop flag.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Failures of reading traffic.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// Connection tracking cannot be read.
    #[error("{0} (reading connection tracking needs CAP_NET_ADMIN: run the command as root)")]
    NotPermitted(#[source] ConntrackError),
    /// Connection tracking cannot be read for another reason. A retry helps if memory was short.
    #[error(transparent)]
    Conntrack(#[from] ConntrackError),
}

/// Rows of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportRows {
    /// Numbers of rows.
    pub limits: Limits,
    /// Single flows.
    pub flows: RowSelection,
}

/// Reader of the connection tracking of the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Reader {
    conntrack: Conntrack,
    /// `None` if the kernel sends no events.
    events: Option<Events>,
    tracker: Tracker,
    attribution: Attribution,
    /// Connections of eBPF mode; `None` if the network namespace is unknown.
    clients: Option<ClientConnections>,
    opened_at: Instant,
    has_lost: bool,
}

impl Reader {
    /// Opens connection tracking, subscribes to events and takes the first sample.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if connection tracking cannot be read.
    pub(crate) fn open(attribution: Attribution) -> Result<Self, ReadError> {
        let events = if kernel_settings::sends_events() {
            Events::open()
                .inspect_err(|error| tracing::debug!(%error, "no events of connection tracking"))
                .ok()
        } else {
            None
        };
        let mut reader = Self {
            conntrack: Conntrack::open()?,
            events,
            tracker: Tracker::default(),
            attribution,
            clients: ClientConnections::new(&default_pins())
                .inspect_err(|error| tracing::debug!(%error, "connections by eBPF not attributed"))
                .ok(),
            opened_at: Instant::now(),
            has_lost: false,
        };
        reader.sample()?;
        Ok(reader)
    }

    /// Uses other frontends from now on. Known flows keep theirs.
    pub(crate) fn set_attribution(&mut self, attribution: Attribution) {
        self.attribution = attribution;
    }

    /// Waits for an interval, and returns its report. The interval ends early when `stop` is set.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if connection tracking cannot be read.
    pub(crate) fn read(
        &mut self,
        interval: Duration,
        rows: &ReportRows,
        stop: &AtomicBool,
    ) -> Result<NodeFlows, ReadError> {
        self.tracker.begin_interval();
        self.has_lost = false;
        self.wait(Instant::now() + interval, stop);
        self.sample()?;
        let mut report = self.tracker.report(&rows.limits, &rows.flows);
        report.observed_at = Timestamp::now().to_string();
        report.counts_bytes = kernel_settings::counts_bytes();
        report.events = match &self.events {
            None => traffic::Events::Off,
            Some(_) if self.has_lost => traffic::Events::Lost,
            Some(_) => traffic::Events::Complete,
        };
        Ok(report)
    }

    /// Reads events until the deadline.
    fn wait(&mut self, deadline: Instant, stop: &AtomicBool) {
        let mut second = Instant::now();
        let mut events = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let rest = deadline.saturating_duration_since(now);
            if rest.is_zero() {
                return;
            }
            if now.duration_since(second) >= Duration::from_secs(1) {
                (second, events) = (now, 0);
            }
            let timeout = rest.min(WAIT_MAX);
            let is_ready = match &self.events {
                Some(subscription) if events < EVENTS_PER_SECOND_MAX => subscription.wait(timeout),
                _ => {
                    std::thread::sleep(timeout);
                    Ok(false)
                }
            };
            match is_ready {
                Ok(false) => {}
                Ok(true) => events += self.read_events(EVENTS_PER_CLOCK_READ).events,
                Err(error) => self.close_events(&error),
            }
        }
    }

    /// Takes a sample, and reads the events up to its end.
    fn sample(&mut self) -> Result<(), ReadError> {
        let now = wall_clock();
        let frontends = self.client_connections();
        let Self {
            conntrack,
            tracker,
            attribution,
            opened_at,
            ..
        } = self;
        tracker.begin_sample(opened_at.elapsed());
        let listed = conntrack.visit(|flow| {
            if let Some(mut entry) = entry(flow, now) {
                entry.frontend = frontend_of(&entry, &frontends);
                tracker.observe(&entry, attribution);
            }
        });
        listed.map_err(read_error)?;
        // An event that remains in the queue would count in the next interval.
        self.has_lost |= !self.read_events(EVENTS_PER_SECOND_MAX).is_drained;
        self.tracker.end_sample();
        Ok(())
    }

    /// Returns the frontends of the open connections of eBPF mode. Failures leave their entries without Services.
    fn client_connections(&self) -> FrontendsOfConnections {
        let read = self.clients.as_ref().map(ClientConnections::read).transpose();
        read.inspect_err(|error| tracing::debug!(%error, "connections by eBPF not attributed"))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Reads at most `events_max` queued events.
    fn read_events(&mut self, events_max: usize) -> EventRead {
        let drained = EventRead {
            is_drained: true,
            ..EventRead::default()
        };
        let Some(events) = &mut self.events else {
            return drained;
        };
        let (tracker, attribution) = (&mut self.tracker, &self.attribution);
        let (now, at) = (wall_clock(), self.opened_at.elapsed());
        let read = events.read(events_max, |event| match event {
            Event::Begin(flow) => {
                if let Some(entry) = entry(flow, now) {
                    tracker.started(&entry, attribution, at);
                }
            }
            Event::End(flow) => {
                if let Some(entry) = entry(flow, now) {
                    tracker.ended(&entry, at);
                }
            }
        });
        match read {
            Ok(read) => {
                self.has_lost |= read.has_lost;
                read
            }
            Err(error) => {
                self.close_events(&error);
                drained
            }
        }
    }

    fn close_events(&mut self, error: &io::Error) {
        tracing::warn!(%error, "events of connection tracking not read");
        self.events = None;
    }
}

/// Returns the frontend of an entry whose packets lead to the endpoint without translation.
fn frontend_of(entry: &Entry, frontends: &FrontendsOfConnections) -> Option<SocketAddr> {
    let is_tcp = entry.protocol == Protocol::Tcp;
    let addresses = (entry.original.source, entry.original.destination);
    frontends.get(&addresses).copied().filter(|_| is_tcp)
}

/// Returns the time since the epoch.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn read_error(error: ConntrackError) -> ReadError {
    match &error {
        ConntrackError::List(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            ReadError::NotPermitted(error)
        }
        _ => ReadError::Conntrack(error),
    }
}
