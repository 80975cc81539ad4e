//! Audit backends: blocking, or batched through a queue.
//!
//! In blocking mode, an event is written before the response, and in strict mode a failed write of the first event
//! rejects the request. In batch mode, a thread writes the events, and requests never wait for the disk. The queue has
//! bounds in events and in bytes; events beyond them are counted and dropped. At shutdown the thread writes the queued
//! events first.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::log::{AuditLogError, AuditLogSettings, Log};

/// Maximum size of all queued lines in bytes. A body can have megabytes, so a number of events would not bound the
/// memory.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Mode of the audit backend, with upstream's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditMode {
    /// Events are written before the response is sent. Failed writes are counted and logged.
    #[default]
    Blocking,
    /// As `Blocking`; a request is rejected if its first event cannot be written.
    BlockingStrict,
    /// Events are queued and written later. Events that exceed the queue are counted and dropped.
    Batch(BatchSettings),
}

/// Settings of the queue in batch mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Maximum number of queued events.
    pub buffer_size: usize,
    /// Maximum number of events in one write.
    pub max_size: usize,
    /// Maximum time that an event waits for its batch.
    pub max_wait: Duration,
}

impl Default for BatchSettings {
    /// Returns upstream's values for the log.
    fn default() -> BatchSettings {
        BatchSettings {
            buffer_size: 10_000,
            max_size: 1,
            max_wait: Duration::ZERO,
        }
    }
}

/// Destination of event lines.
pub(super) enum Backend {
    Blocking {
        log: Mutex<Log>,
        is_strict: bool,
        counts: Arc<Counts>,
    },
    Batch(Queue),
}

/// Queue of batch mode, with its writer thread.
pub(super) struct Queue {
    /// `None` while the queue shuts down.
    sender: Option<SyncSender<Vec<u8>>>,
    bytes: Arc<AtomicUsize>,
    writer: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

impl Backend {
    /// Opens the log. For batches, it also starts the thread that writes them.
    pub(super) fn open(
        settings: &AuditLogSettings,
        mode: AuditMode,
        counts: Arc<Counts>,
    ) -> Result<Backend, AuditLogError> {
        let log = Log::open(settings)?;
        Ok(match mode {
            AuditMode::Batch(batch) => Backend::Batch(Queue::start(log, batch, counts)?),
            mode => Backend::Blocking {
                log: Mutex::new(log),
                is_strict: mode == AuditMode::BlockingStrict,
                counts,
            },
        })
    }

    /// Writes or queues a line. Returns false if the request must fail because strict mode requires the event.
    pub(super) fn write(&self, line: Vec<u8>) -> bool {
        match self {
            Backend::Blocking {
                log,
                is_strict,
                counts,
            } => {
                let result = log.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
                let is_written = result.is_ok();
                report_errors(result, 1, counts);
                is_written || !is_strict
            }
            Backend::Batch(queue) => {
                queue.push(line);
                true
            }
        }
    }
}

impl Queue {
    fn start(log: Log, settings: BatchSettings, counts: Arc<Counts>) -> Result<Queue, AuditLogError> {
        let (sender, receiver) = sync_channel(settings.buffer_size);
        let bytes = Arc::new(AtomicUsize::new(0));
        let writer = {
            let (bytes, counts) = (bytes.clone(), counts.clone());
            let run = move || write_batches(log, &receiver, settings, &bytes, &counts);
            std::thread::Builder::new()
                .name("audit-log".to_owned())
                .spawn(run)
                .map_err(AuditLogError::Thread)?
        };
        Ok(Queue {
            sender: Some(sender),
            bytes,
            writer: Some(writer),
            counts,
        })
    }

    fn push(&self, line: Vec<u8>) {
        let bytes = line.len();
        let queued = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = queued + bytes <= QUEUED_BYTES_MAX;
        let sender = self.sender.as_ref().filter(|_| has_room);
        if sender.is_none_or(|sender| sender.try_send(line).is_err()) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.count_dropped();
        }
    }
}

impl Drop for Queue {
    /// Waits until the writer thread has written the queued events.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("audit log writer panicked");
        }
    }
}

/// Writes batches until the queue is closed.
fn write_batches(
    mut log: Log,
    receiver: &Receiver<Vec<u8>>,
    settings: BatchSettings,
    bytes: &AtomicUsize,
    counts: &Counts,
) {
    while let Ok(mut batch) = receiver.recv() {
        let deadline = Instant::now() + settings.max_wait;
        let mut events = 1;
        while events < settings.max_size {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(remaining) {
                Ok(line) => batch.extend_from_slice(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            events += 1;
        }
        report_errors(log.write(&batch), events as u64, counts);
        bytes.fetch_sub(batch.len(), Ordering::Relaxed);
    }
}

fn report_errors(result: io::Result<()>, events: u64, counts: &Counts) {
    if let Err(error) = result {
        tracing::error!(%error, events, "audit events lost");
        counts.count_log_errors(events);
    }
}
