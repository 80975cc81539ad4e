//! Gathers the lines of one Service and writes them, file by file.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, PutPayload};
use tokio::sync::{mpsc, watch};

use super::Counts;
use super::part::{Part, name};
use super::quota::Quota;
use crate::settings::{AccessLog, ServiceName};

#[cfg(test)]
mod tests;

/// Lines taken from the queue at once.
const LINES_AT_ONCE: usize = 256;

/// How often a file is tried to be written, and the pause after the first try; each later one is twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    pub(super) count: u32,
    pub(super) first_pause: Duration,
}

impl Default for Tries {
    /// Half a minute in all: one file of lines is held in memory meanwhile, and the next one is gathered.
    fn default() -> Self {
        Self {
            count: 5,
            first_pause: Duration::from_secs(2),
        }
    }
}

/// What writes the lines of a Service.
pub struct Writer {
    pub(super) service: ServiceName,
    pub(super) host: Arc<str>,
    pub(super) settings: AccessLog,
    pub(super) store: Arc<dyn ObjectStore>,
    /// Bounds of the destination, if it is a directory.
    pub(super) quota: Option<Arc<Quota>>,
    pub(super) room_changed: Arc<watch::Sender<u64>>,
    pub(super) tries: Tries,
    pub(super) counts: Arc<Counts>,
}

impl Writer {
    /// Writes until the queue is closed and empty. When `finish` becomes true, it closes the queue itself.
    pub async fn run(self, mut queue: mpsc::Receiver<String>, mut finish: watch::Receiver<bool>) {
        let mut part: Option<Part> = None;
        let mut lines = Vec::new();
        let (mut is_closed, mut is_finishing) = (false, false);
        let mut writing = std::pin::pin!(None);
        loop {
            if writing.is_none() {
                let is_due = |part: &mut Part| is_closed || self.due_in(part).is_zero();
                if let Some(part) = part.take_if(is_due) {
                    writing.set(Some(self.write(part)));
                } else if is_closed {
                    return;
                }
            }
            let is_writing = writing.is_some();
            let due_in = part.as_ref().map_or(Duration::MAX, |part| self.due_in(part));
            let has_room = part.as_ref().is_none_or(|part| !part.is_full());
            tokio::select! {
                count = queue.recv_many(&mut lines, LINES_AT_ONCE), if has_room && !is_closed => {
                    is_closed = count == 0;
                    self.gather(&mut part, &mut lines);
                }
                () = tokio::time::sleep(due_in), if !is_writing && part.is_some() => {}
                () = written(writing.as_mut()), if is_writing => {
                    writing.set(None);
                }
                () = asked(&mut finish), if !is_finishing => {
                    is_finishing = true;
                    queue.close();
                }
            }
        }
    }

    fn due_in(&self, part: &Part) -> Duration {
        part.due_in(Timestamp::now(), self.settings.interval)
    }

    fn gather(&self, part: &mut Option<Part>, lines: &mut Vec<String>) {
        for line in lines.drain(..) {
            match part {
                Some(part) => part.push(&line),
                None => *part = Some(Part::new(Timestamp::now(), &line)),
            }
        }
    }

    /// Writes a file, and gives it up after the last try.
    async fn write(&self, part: Part) {
        let name = name(
            &self.settings.prefix,
            &self.service,
            &self.host,
            Timestamp::now(),
            fastrand::u64(..),
        );
        let lines = part.lines;
        if !self.has_room(&name, &part).await {
            return;
        }
        let payload = PutPayload::from(part.text);
        let mut pause = self.tries.first_pause;
        for attempt in 1..=self.tries.count {
            match self.store.put(&name, payload.clone()).await {
                Ok(_) => {
                    self.counts.add_file();
                    return;
                }
                Err(error) if attempt < self.tries.count => {
                    tracing::debug!(service = %self.service, file = %name, %error, "an access log will be written again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    tracing::warn!(service = %self.service, file = %name, lines, %error, "an access log cannot be written: its lines are lost");
                    self.counts.lose(lines);
                    if let Some(quota) = &self.quota {
                        quota.release(&self.service, &name);
                    }
                }
            }
        }
    }

    /// Whether a file may be written; its lines are counted if not. The first one that may not is told in the log.
    async fn has_room(&self, name: &Path, part: &Part) -> bool {
        let Some(quota) = &self.quota else { return true };
        let bytes = u64::try_from(part.text.len()).unwrap_or(u64::MAX);
        let refused = quota.reserve(&self.service, name, bytes).await.err();
        if refused.is_some() {
            self.counts.leave_out(part.lines);
        }
        let why = refused.as_ref().map(ToString::to_string);
        if self.counts.set_no_room(why) {
            match &refused {
                Some(error) => {
                    tracing::warn!(service = %self.service, lines = part.lines, %error, "access log not written");
                }
                None => tracing::info!(service = %self.service, "access log written again"),
            }
            self.room_changed.send_modify(|changes| *changes += 1);
        }
        refused.is_none()
    }
}

/// Returns when it is written, if something is being written.
async fn written(writing: Pin<&mut Option<impl Future<Output = ()>>>) {
    if let Some(writing) = writing.as_pin_mut() {
        writing.await;
    }
}

/// Returns when it is true; never if nobody can make it so any more.
async fn asked(finish: &mut watch::Receiver<bool>) {
    if finish.wait_for(|is_asked| *is_asked).await.is_err() {
        std::future::pending::<()>().await;
    }
}
