//! Watch: the changes of a collection as a stream of lines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use store::{Entry, Revision, StoreError, Watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};

use super::selection::Selection;
use super::shared_frames::{Frame, SharedFrames, StreamName};
use super::watch_events::{self, Lines};
use super::{Resources, check_readable};
use crate::failure::Failure;
use crate::metrics::watches::WatchCounts;
use crate::request::negotiation::Form;
use crate::request::query::ListOptions;
use crate::request::route::Target;
use crate::shutdown::Shutdown;
use crate::transport::response::FRAME_BYTES;
use crate::verbs::printing::IncludeObject;

/// How often a client that takes bookmarks gets one while nothing else happens, as upstream does.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch without `timeoutSeconds` ends between this and twice this, so that not all come back at once.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// No watch lasts longer, whatever the client asks for.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// What it takes to tell one watch of a change, together with its share of what happens in the kernel.
const REST_PER_WATCH: Duration = Duration::from_micros(10);
/// Timers are not finer than this.
const REST_MIN: Duration = Duration::from_millis(1);
/// No change waits longer for others, however many watches there are.
const REST_MAX: Duration = Duration::from_millis(20);

/// The lines of a watch.
pub(crate) type LineStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl Resources {
    /// Watches a collection, or one object of it.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        options: &ListOptions,
        form: Form,
        include: IncludeObject,
    ) -> Result<LineStream, Failure> {
        let selection = Selection::read(target, options)?;
        self.wait_for(options.version).await?;
        let stream = self.frames.stream(&format!(
            "{}\n{}\n{}\n{}\n{form:?}\n{include:?}",
            target.kind.group, selection.prefix, options.label_selector, options.field_selector
        ));
        let lines = Lines {
            kind: target.kind,
            selection,
            form,
            include,
            told_columns: false,
            told: 0,
            rendered: self.rendered.clone(),
        };
        let start = match self.start(&lines.selection, options) {
            Ok(start) => start,
            Err(StoreError::Compacted { requested, oldest }) => return Ok(too_old(requested, oldest, form)),
            Err(other) => return Err(Failure::of_read(&other)),
        };
        start.initial.iter().try_for_each(check_readable)?;
        let mut period = tokio::time::interval(BOOKMARK_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        period.reset();
        self.watch_counts.watches(target.kind, 1);
        let telling = Telling {
            counts: self.watch_counts.clone(),
            lines,
            stream,
            frames: self.frames.clone(),
            initial: start.initial.into_iter(),
            initial_ends_at: start.bookmark_at,
            watch: start.watch,
            bookmarks: options.bookmarks,
            period,
            rest: Rest::default(),
            end: Box::pin(end(self.shutdown.clone(), timeout(options.timeout_seconds))),
            is_over: false,
        };
        Ok(Box::pin(futures_util::stream::unfold(
            telling,
            |mut telling| async move {
                let frame = telling.next_frame().await?;
                Some((frame, telling))
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
            let bookmark_at = (options.send_initial_events == Some(true)).then_some(listing.revision);
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

/// Where a watch begins.
struct Start {
    initial: Vec<Entry>,
    bookmark_at: Option<Revision>,
    watch: Watch,
}

/// A watch that goes on.
struct Telling {
    counts: Arc<WatchCounts>,
    lines: Lines,
    stream: StreamName,
    frames: Arc<SharedFrames>,
    initial: std::vec::IntoIter<Entry>,
    /// The revision of the bookmark behind the initial objects, until it was told.
    initial_ends_at: Option<Revision>,
    watch: Watch,
    bookmarks: bool,
    period: Interval,
    rest: Rest,
    /// Resolves when the watch is to end.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
}

/// What a watch waits for.
enum Happening {
    Events(Result<(), StoreError>),
    Bookmark,
    End,
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.counts.watches(self.lines.kind, -1);
    }
}

impl Telling {
    /// The next lines, as many as there are up to a frame's worth; `None` when the watch is over.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            let frame = match self.initial_frame() {
                Some(frame) => frame,
                None => match self.happening().await {
                    Happening::Events(ready) => self.events_frame(ready),
                    Happening::Bookmark => self.progress_frame(),
                    Happening::End => {
                        self.is_over = true;
                        match self.bookmarks {
                            true => self.progress_frame(),
                            false => Bytes::new(),
                        }
                    }
                },
            };
            if !frame.is_empty() {
                self.counts.told(self.lines.kind, self.lines.take_told());
                return Some(frame);
            }
        }
    }

    /// Initial objects, perhaps none of which is selected; `None` when all were told before.
    fn initial_frame(&mut self) -> Option<Bytes> {
        if self.initial.len() == 0 && self.initial_ends_at.is_none() {
            return None;
        }
        let mut out = BytesMut::new();
        while out.len() < FRAME_BYTES
            && let Some(entry) = self.initial.next()
        {
            self.lines.initial(&entry.key, &entry.value, &mut out);
        }
        if self.initial.len() == 0
            && let Some(revision) = self.initial_ends_at.take()
        {
            self.lines.bookmark(revision, true, &mut out);
        }
        Some(out.freeze())
    }

    async fn happening(&mut self) -> Happening {
        let ready = async {
            self.rest.over().await;
            self.watch.ready().await
        };
        tokio::select! {
            biased;
            () = self.end.as_mut() => Happening::End,
            ready = ready => Happening::Events(ready),
            _ = self.period.tick(), if self.bookmarks => Happening::Bookmark,
        }
    }

    /// The events that wait.
    fn events_frame(&mut self, ready: Result<(), StoreError>) -> Bytes {
        let (lines, watch) = (&mut self.lines, &mut self.watch);
        let position = watch.position();
        let written = ready.and_then(|()| match lines.is_stateless() {
            true => self
                .frames
                .get_or_write(&mut self.stream, position, || written(lines, watch)),
            false => written(lines, watch),
        });
        match written {
            Ok(frame) => {
                self.lines.told += frame.told;
                self.watch.skip_to(frame.next);
                if !self.watch.has_more() {
                    self.rest.begin(self.counts.open(self.lines.kind));
                }
                frame.bytes
            }
            Err(error) => {
                tracing::info!(prefix = %self.lines.selection.prefix, %error, "a watch was cut");
                let failure = Failure::expired("too old resource version: the watch did not keep up");
                let mut out = BytesMut::new();
                watch_events::error(&failure, self.lines.form.encoding, &mut out);
                self.is_over = true;
                out.freeze()
            }
        }
    }

    fn progress_frame(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let revision = self.watch.progress();
        if revision.0 > 0 {
            self.lines.bookmark(revision, false, &mut out);
        }
        out.freeze()
    }
}

/// Writes what waits, up to a frame's worth.
fn written(lines: &mut Lines, watch: &mut Watch) -> Result<Frame, StoreError> {
    let told_before = lines.take_told();
    let mut out = BytesMut::new();
    while out.len() < FRAME_BYTES {
        match watch.try_next() {
            // The client lists anew, which says what is wrong.
            Ok(Some(event)) if store::is_sealed(&event.value) => {
                let reason = format!("the new value of {} cannot be decrypted", event.key);
                return Err(StoreError::Corrupt { reason });
            }
            Ok(Some(event)) => lines.event(&event, &mut out),
            Ok(None) => break,
            // What was read before is told first; the error comes again.
            Err(_) if !out.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    let told = lines.take_told();
    lines.told = told_before;
    Ok(Frame {
        bytes: out.freeze(),
        told,
        next: watch.position(),
    })
}

/// The pause between two looks into the log: a watch that was told everything takes what comes shortly after it in one
/// go. Waking many watches takes time, of which each change in a rapid sequence would need as much as the first.
#[derive(Default)]
struct Rest {
    timer: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Rest {
    /// Begins one, as long as it takes to tell all watches of the kind, if that is long enough to be worth a timer.
    fn begin(&mut self, watches: u32) {
        let length = (REST_PER_WATCH * watches).min(REST_MAX);
        self.is_over = length < REST_MIN;
        if self.is_over {
            return;
        }
        let end = Instant::now() + length;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(end),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(end))),
        }
    }

    /// Resolves when it is over. Dropping the future loses nothing.
    async fn over(&mut self) {
        if let Some(timer) = &mut self.timer
            && !self.is_over
        {
            timer.as_mut().await;
            self.is_over = true;
        }
    }
}

/// Resolves when a watch is to end: after its time, or with the server.
async fn end(mut shutdown: Shutdown, timeout: Duration) {
    tokio::select! {
        biased;
        () = shutdown.requested() => {}
        () = tokio::time::sleep(timeout) => {}
    }
}

fn timeout(asked_seconds: Option<u64>) -> Duration {
    match asked_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds).min(TIMEOUT_MAX),
        _ => TIMEOUT_MIN.mul_f64(1.0 + fastrand::f64()),
    }
}

/// A watch from before the history: it says so and ends.
fn too_old(asked: Revision, oldest: Revision, form: Form) -> LineStream {
    let failure = Failure::expired(format!("too old resource version: {asked} ({oldest})"));
    let mut out = BytesMut::new();
    watch_events::error(&failure, form.encoding, &mut out);
    Box::pin(futures_util::stream::once(async move { out.freeze() }))
}
