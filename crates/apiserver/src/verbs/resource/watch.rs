//! Implements `watch`: the changes of a collection as a stream of lines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use store::{Entry, Revision, StoreError, Watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};

use super::selection::Selection;
use super::shared_frames::{Frame, SharedFrames, StreamName};
use super::watch_events::{self, EventWriter};
use super::{Resources, check_readable};
use crate::failure::Failure;
use crate::metrics::watches::WatchCounts;
use crate::request::negotiation::Form;
use crate::request::query::ListOptions;
use crate::request::route::Target;
use crate::shutdown::Shutdown;
use crate::transport::response::{FRAME_BYTES, ResponsePermit};
use crate::verbs::printing::IncludeObject;

/// Interval of bookmarks for clients that request them, as upstream's.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Lower bound of the random timeout of watches without `timeoutSeconds`. The upper bound is twice this value, so that
/// clients do not reconnect at the same time.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// Upper bound of `timeoutSeconds`.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Cost of sending an event to one watch, including its share of kernel work.
const BATCH_DELAY_PER_WATCH: Duration = Duration::from_micros(10);
/// Shortest batch delay: timers have no finer resolution.
const BATCH_DELAY_MIN: Duration = Duration::from_millis(1);
/// Longest batch delay, independent of the number of watches.
const BATCH_DELAY_MAX: Duration = Duration::from_millis(20);

/// Maximum number of bytes of objects that a watch matches before other watches and requests run. Objects that a
/// selector does not match add nothing to a frame.
const SCAN_BYTES_MAX: usize = 1 << 20;
/// Cost of matching an object besides its bytes.
const SCAN_OVERHEAD_BYTES: usize = 256;

/// The lines of a watch response.
pub(crate) type LineStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl Resources {
    /// Watches a collection, or one object of it. `memory` is the permit for the initial objects.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        options: &ListOptions,
        form: Form,
        include: IncludeObject,
        mut memory: ResponsePermit,
    ) -> Result<LineStream, Failure> {
        let selection = Selection::parse(target, options)?;
        self.wait_for(options.version).await?;
        let name = stream_name(target, &selection.prefix, options, form, include);
        let stream = self.frames.stream(&name);
        let writer = EventWriter {
            kind: target.kind,
            selection,
            form,
            include,
            has_sent_columns: false,
            event_count: 0,
            encoded_events: self.encoded_events.clone(),
        };
        let start = match self.start(&writer.selection, options) {
            Ok(start) => start,
            Err(StoreError::Compacted { requested, oldest }) => {
                return Ok(compacted_watch(requested, oldest, form));
            }
            Err(other) => return Err(Failure::of_read(&other)),
        };
        start.initial.iter().try_for_each(check_readable)?;
        memory.reserve(size_of_val(start.initial.as_slice()), false)?;
        let mut period = tokio::time::interval(BOOKMARK_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        period.reset();
        self.watch_counts.add_watches(target.kind, 1);
        let stream = WatchStream {
            counts: self.watch_counts.clone(),
            writer,
            stream,
            frames: self.frames.clone(),
            initial: start.initial.into_iter(),
            initial_memory: Some(memory),
            initial_ends_at: start.bookmark_at,
            watch: start.watch,
            sends_bookmarks: options.bookmarks,
            period,
            batch_delay: BatchDelay::default(),
            end: Box::pin(timeout_or_shutdown(
                self.shutdown.clone(),
                timeout(options.timeout_seconds),
            )),
            is_ended: false,
        };
        Ok(Box::pin(futures_util::stream::unfold(
            stream,
            |mut stream| async move {
                let frame = stream.next_frame().await?;
                Some((frame, stream))
            },
        )))
    }

    fn start(&self, selection: &Selection, options: &ListOptions) -> Result<Start, StoreError> {
        let index = self.store.index();
        let from = options.version.filter(|version| version.0 > 0);
        let sends_initial = options.send_initial_events.unwrap_or(from.is_none());
        if sends_initial {
            let listing = index.list(&selection.prefix, None, None, None)?;
            let watch = index.watch(&selection.prefix, listing.revision)?;
            // As upstream: a client without bookmarks receives none at the end of the initial objects either.
            let sends_bookmark = options.send_initial_events == Some(true) && options.bookmarks;
            let bookmark_at = sends_bookmark.then_some(listing.revision);
            return Ok(Start {
                initial: listing.entries,
                bookmark_at,
                watch,
            });
        }
        let from = from.unwrap_or_else(|| index.revision());
        Ok(Start {
            initial: Vec::new(),
            bookmark_at: None,
            watch: index.watch(&selection.prefix, from)?,
        })
    }
}

/// The initial state of a watch.
struct Start {
    initial: Vec<Entry>,
    bookmark_at: Option<Revision>,
    watch: Watch,
}

/// A watch in progress.
struct WatchStream {
    counts: Arc<WatchCounts>,
    writer: EventWriter,
    stream: StreamName,
    frames: Arc<SharedFrames>,
    initial: std::vec::IntoIter<Entry>,
    /// Permit for the initial objects; `None` once they are sent.
    initial_memory: Option<ResponsePermit>,
    /// Revision of the bookmark that follows the initial objects; `None` once it is sent.
    initial_ends_at: Option<Revision>,
    watch: Watch,
    sends_bookmarks: bool,
    period: Interval,
    batch_delay: BatchDelay,
    /// Resolves at the timeout or at shutdown.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_ended: bool,
}

/// The next input of a watch.
enum Input {
    Events(Result<(), StoreError>),
    Bookmark,
    End,
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.counts.add_watches(self.writer.kind, -1);
    }
}

impl WatchStream {
    /// Returns the next lines, up to a frame's worth; `None` at the end of the watch.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if self.is_ended {
                return None;
            }
            let frame = match self.initial_frame() {
                Some(frame) => frame,
                None => match self.next_input().await {
                    Input::Events(ready) => self.events_frame(ready),
                    Input::Bookmark => self.progress_frame(),
                    Input::End => {
                        self.is_ended = true;
                        if self.sends_bookmarks {
                            self.progress_frame()
                        } else {
                            Bytes::new()
                        }
                    }
                },
            };
            if !frame.is_empty() {
                self.counts
                    .add_events(self.writer.kind, self.writer.take_event_count());
                return Some(frame);
            }
            if self.initial.len() > 0 || self.watch.has_more() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns initial objects; the frame is empty if none matches. `None` once all are sent.
    fn initial_frame(&mut self) -> Option<Bytes> {
        if self.initial.len() == 0 && self.initial_ends_at.is_none() {
            if self.initial_memory.take().is_some() {
                self.initial = Vec::new().into_iter();
            }
            return None;
        }
        let mut out = BytesMut::new();
        let mut scanned_bytes = 0;
        while out.len() < FRAME_BYTES
            && scanned_bytes < SCAN_BYTES_MAX
            && let Some(entry) = self.initial.next()
        {
            scanned_bytes += SCAN_OVERHEAD_BYTES + entry.value.len();
            self.writer.write_initial(&entry.key, &entry.value, &mut out);
        }
        if self.initial.len() == 0
            && let Some(revision) = self.initial_ends_at.take()
        {
            self.writer.write_bookmark(revision, true, &mut out);
        }
        Some(out.freeze())
    }

    async fn next_input(&mut self) -> Input {
        let ready = async {
            self.batch_delay.elapsed().await;
            self.watch.ready().await
        };
        tokio::select! {
            biased;
            () = self.end.as_mut() => Input::End,
            ready = ready => Input::Events(ready),
            _ = self.period.tick(), if self.sends_bookmarks => Input::Bookmark,
        }
    }

    /// Returns the pending events as a frame.
    fn events_frame(&mut self, ready: Result<(), StoreError>) -> Bytes {
        let (writer, watch) = (&mut self.writer, &mut self.watch);
        let position = watch.position();
        let result = ready.and_then(|()| {
            if writer.is_stateless() {
                self.frames
                    .get_or_write(&mut self.stream, position, || write_events(writer, watch))
            } else {
                write_events(writer, watch)
            }
        });
        match result {
            Ok(frame) => {
                self.writer.event_count += frame.event_count;
                self.watch.skip_to(frame.next);
                if !self.watch.has_more() {
                    self.batch_delay.start(self.counts.open(self.writer.kind));
                }
                frame.bytes
            }
            Err(error) => {
                tracing::info!(prefix = %self.writer.selection.prefix, %error, "watch ended; events lost");
                let failure = Failure::expired("too old resource version: the watch did not keep up");
                let mut out = BytesMut::new();
                watch_events::write_error(&failure, self.writer.form.encoding, &mut out);
                self.is_ended = true;
                out.freeze()
            }
        }
    }

    fn progress_frame(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let revision = self.watch.progress();
        if revision.0 > 0 {
            self.writer.write_bookmark(revision, false, &mut out);
        }
        out.freeze()
    }
}

/// Returns the name of the watches that send equal lines. Versions of one group share their keys. The texts are
/// quoted, because a client chooses them, and watches with equal names send each other's lines.
fn stream_name(
    target: &Target,
    prefix: &str,
    options: &ListOptions,
    form: Form,
    include: IncludeObject,
) -> String {
    let version = target.kind.api_version();
    let (labels, fields) = (&options.label_selector, &options.field_selector);
    format!("{version} {prefix:?} {labels:?} {fields:?} {form:?} {include:?}")
}

/// Writes pending events until a frame is full, or until the bound of matched bytes is reached.
fn write_events(writer: &mut EventWriter, watch: &mut Watch) -> Result<Frame, StoreError> {
    let earlier_count = writer.take_event_count();
    let mut out = BytesMut::new();
    let mut scanned_bytes = 0;
    while out.len() < FRAME_BYTES && scanned_bytes < SCAN_BYTES_MAX {
        match watch.try_next() {
            // The client lists again, and the list reports the error.
            Ok(Some(event)) if store::is_sealed(&event.value) => {
                let reason = format!("the new value of {} cannot be decrypted", event.key);
                return Err(StoreError::Corrupt { reason });
            }
            Ok(Some(event)) => {
                let previous_bytes = event.previous.as_ref().map_or(0, Bytes::len);
                scanned_bytes += SCAN_OVERHEAD_BYTES + event.value.len() + previous_bytes;
                writer.write_event(&event, &mut out);
            }
            Ok(None) => break,
            // Events that were read before are sent first; the next call returns the error again.
            Err(_) if !out.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    let event_count = writer.take_event_count();
    writer.event_count = earlier_count;
    Ok(Frame {
        bytes: out.freeze(),
        event_count,
        next: watch.position(),
    })
}

/// The delay in which events are batched once a watch has sent all events. All watches of a kind then run for one batch
/// instead of for each change of a rapid sequence.
#[derive(Default)]
struct BatchDelay {
    timer: Option<Pin<Box<Sleep>>>,
    has_elapsed: bool,
}

impl BatchDelay {
    /// Starts a delay proportional to the number of watches of the kind, or none if it would be shorter than a
    /// timer's resolution.
    fn start(&mut self, watches: u32) {
        let length = (BATCH_DELAY_PER_WATCH * watches).min(BATCH_DELAY_MAX);
        self.has_elapsed = length < BATCH_DELAY_MIN;
        if self.has_elapsed {
            return;
        }
        let end = Instant::now() + length;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(end),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(end))),
        }
    }

    /// Resolves at the end of the delay. Cancel-safe.
    async fn elapsed(&mut self) {
        if let Some(timer) = &mut self.timer
            && !self.has_elapsed
        {
            timer.as_mut().await;
            self.has_elapsed = true;
        }
    }
}

/// Resolves at the timeout or at shutdown.
async fn timeout_or_shutdown(mut shutdown: Shutdown, timeout: Duration) {
    tokio::select! {
        biased;
        () = shutdown.requested() => {}
        () = tokio::time::sleep(timeout) => {}
    }
}

fn timeout(requested_seconds: Option<u64>) -> Duration {
    match requested_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds).min(TIMEOUT_MAX),
        _ => TIMEOUT_MIN.mul_f64(1.0 + fastrand::f64()),
    }
}

/// Returns a watch that reports a compacted revision and ends.
fn compacted_watch(requested: Revision, oldest: Revision, form: Form) -> LineStream {
    let failure = Failure::expired(format!("too old resource version: {requested} ({oldest})"));
    let mut out = BytesMut::new();
    watch_events::write_error(&failure, form.encoding, &mut out);
    Box::pin(futures_util::stream::once(async move { out.freeze() }))
}

#[cfg(test)]
mod tests;
