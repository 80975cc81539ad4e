//! Output of events: blocking, or through a queue.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::log::{AuditLogError, AuditLogSettings, Log};

/// Bytes of all lines in the queue of batch mode: bodies may have megabytes each, and their number alone bounds nothing.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Mode of writing, with upstream's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditMode {
    /// Before the answer is sent. An event that cannot be written is counted and logged.
    #[default]
    Blocking,
    /// The same; a request whose first event cannot be written is refused.
    BlockingStrict,
    /// Some time later. Events that find no room in the queue are counted and lost.
    Batch(BatchSettings),
}

/// The queue of batch mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Events that wait at most.
    pub buffer_size: usize,
    /// Events that are written in one go at most.
    pub max_size: usize,
    /// Longest wait of an event for its batch.
    pub max_wait: Duration,
}

impl Default for BatchSettings {
    /// Upstream's values for the log.
    fn default() -> BatchSettings {
        BatchSettings {
            buffer_size: 10_000,
            max_size: 1,
            max_wait: Duration::ZERO,
        }
    }
}

/// Takes lines.
pub(super) enum Backend {
    Blocking {
        log: Mutex<Log>,
        is_strict: bool,
        counts: Arc<Counts>,
    },
    Batch(Queue),
}

/// The queue of batch mode and the thread that empties it.
pub(super) struct Queue {
    /// `None` when the queue ends.
    sender: Option<SyncSender<Vec<u8>>>,
    bytes: Arc<AtomicUsize>,
    writer: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

impl Backend {
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

    /// Takes a line. Returns whether the request may go on: not where an event is lost that strict mode has to have.
    pub(super) fn take(&self, line: Vec<u8>) -> bool {
        match self {
            Backend::Blocking {
                log,
                is_strict,
                counts,
            } => {
                let written = log.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
                let is_written = written.is_ok();
                report(written, 1, counts);
                is_written || !is_strict
            }
            Backend::Batch(queue) => {
                queue.take(line);
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

    fn take(&self, line: Vec<u8>) {
        let bytes = line.len();
        let queued = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = queued + bytes <= QUEUED_BYTES_MAX;
        let sender = self.sender.as_ref().filter(|_| has_room);
        if sender.is_none_or(|sender| sender.try_send(line).is_err()) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped();
        }
    }
}

impl Drop for Queue {
    /// Writes what waits.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the audit log panicked");
        }
    }
}

/// Writes lines until the queue ends.
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
            let left = deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(line) => batch.extend_from_slice(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            events += 1;
        }
        report(log.write(&batch), events as u64, counts);
        bytes.fetch_sub(batch.len(), Ordering::Relaxed);
    }
}

fn report(written: io::Result<()>, events: u64, counts: &Counts) {
    if let Err(error) = written {
        tracing::error!(%error, events, "audit events were lost");
        counts.log_error(events);
    }
}
