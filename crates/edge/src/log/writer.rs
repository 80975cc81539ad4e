//! The writer of a Service's access log.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, PutPayload};
use tokio::sync::{mpsc, watch};

use super::Counts;
use super::batch::{Batch, name};
use super::memory::Memory;
use super::quota::Quota;
use crate::settings::{AccessLog, ServiceName};
use crate::watch_flag::wait_until_true;

#[cfg(test)]
mod tests;

/// Maximum number of lines taken from the queue at once.
const LINES_PER_READ_MAX: usize = 256;

/// Attempts to write a file. The pause after each is twice as long as the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    pub(super) count: u32,
    pub(super) first_pause: Duration,
}

impl Default for RetryPolicy {
    /// Half a minute in all. Meanwhile one file is in memory, and the next one is gathered.
    fn default() -> Self {
        Self {
            count: 5,
            first_pause: Duration::from_secs(2),
        }
    }
}

/// The writer of a Service's access log.
pub(super) struct Writer {
    pub(super) service: ServiceName,
    pub(super) host: Arc<str>,
    pub(super) settings: AccessLog,
    pub(super) store: Arc<dyn ObjectStore>,
    /// Limits of the destination, if it is the directory.
    pub(super) quota: Option<Arc<Quota>>,
    pub(super) space_changed: Arc<watch::Sender<u64>>,
    pub(super) retries: RetryPolicy,
    /// Memory of the lines in the queue and of the gathered ones.
    pub(super) memory: Arc<Memory>,
    pub(super) counts: Arc<Counts>,
}

impl Writer {
    /// Writes until the queue is closed and empty. When `finish` becomes true, it closes the queue itself.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<String>, mut finish: watch::Receiver<bool>) {
        let mut batch: Option<Batch> = None;
        let mut lines = Vec::new();
        let (mut is_closed, mut is_finishing) = (false, false);
        let mut writing = std::pin::pin!(None);
        loop {
            if writing.is_none() {
                let is_due = |batch: &mut Batch| is_closed || self.due_in(batch).is_zero();
                if let Some(batch) = batch.take_if(is_due) {
                    writing.set(Some(self.write(batch)));
                } else if is_closed {
                    return;
                }
            }
            let is_writing = writing.is_some();
            let due_in = batch.as_ref().map_or(Duration::MAX, |batch| self.due_in(batch));
            let has_room = batch.as_ref().is_none_or(|batch| !batch.is_full());
            tokio::select! {
                count = queue.recv_many(&mut lines, LINES_PER_READ_MAX), if has_room && !is_closed => {
                    is_closed = count == 0;
                    self.append_to_batch(&mut batch, &mut lines);
                }
                () = tokio::time::sleep(due_in), if !is_writing && batch.is_some() => {}
                () = self.memory.scarcity(), if !is_writing && batch.is_some() => {}
                () = wait_until_written(writing.as_mut()), if is_writing => {
                    writing.set(None);
                }
                () = wait_until_true(&mut finish), if !is_finishing => {
                    is_finishing = true;
                    queue.close();
                }
            }
        }
    }

    /// Returns the time until a batch must be written: none if memory is scarce.
    fn due_in(&self, batch: &Batch) -> Duration {
        if self.memory.is_scarce() {
            return Duration::ZERO;
        }
        batch.due_in(Timestamp::now(), self.settings.interval)
    }

    fn append_to_batch(&self, batch: &mut Option<Batch>, lines: &mut Vec<String>) {
        for line in lines.drain(..) {
            match batch {
                Some(batch) => batch.push(&line),
                None => *batch = Some(Batch::new(Timestamp::now(), &line)),
            }
        }
    }

    /// Writes a file. Its lines are lost after the last attempt.
    async fn write(&self, batch: Batch) {
        let name = name(
            &self.settings.prefix,
            &self.service,
            &self.host,
            Timestamp::now(),
            fastrand::u64(..),
        );
        let lines = batch.lines;
        let _held = self.memory.remove_on_drop(batch.text.len());
        if !self.reserve(&name, &batch).await {
            return;
        }
        let payload = PutPayload::from(batch.text);
        let mut pause = self.retries.first_pause;
        for attempt in 1..=self.retries.count {
            match self.store.put(&name, payload.clone()).await {
                Ok(_) => {
                    self.counts.count_file();
                    return;
                }
                Err(error) if attempt < self.retries.count => {
                    tracing::debug!(service = %self.service, file = %name, %error, "access log not written; retrying");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    tracing::warn!(service = %self.service, file = %name, lines, %error, "access log not written; lines lost");
                    self.counts.count_lost(lines);
                    if let Some(quota) = &self.quota {
                        quota.release(&self.service, &name);
                    }
                }
            }
        }
    }

    /// Reserves space for a file. Without space, counts its lines as unwritten and returns false. Only a change of the
    /// result is logged.
    async fn reserve(&self, name: &Path, batch: &Batch) -> bool {
        let Some(quota) = &self.quota else { return true };
        let bytes = u64::try_from(batch.text.len()).unwrap_or(u64::MAX);
        let refused = quota.reserve(&self.service, name, bytes).await.err();
        if refused.is_some() {
            self.counts.count_unwritten(batch.lines);
        }
        let reason = refused.as_ref().map(ToString::to_string);
        if self.counts.set_pause_reason(reason) {
            match &refused {
                Some(error) => {
                    tracing::warn!(service = %self.service, lines = batch.lines, %error, "access log not written");
                }
                None => tracing::info!(service = %self.service, "access log written again"),
            }
            self.space_changed.send_modify(|changes| *changes += 1);
        }
        refused.is_none()
    }
}

/// Completes when the file is written; at once if no file is being written.
async fn wait_until_written(writing: Pin<&mut Option<impl Future<Output = ()>>>) {
    if let Some(writing) = writing.as_pin_mut() {
        writing.await;
    }
}
