//! Watch: the changes of a collection as a stream of lines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use store::{Entry, Event, Revision, StoreError, Watch};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Resources;
use super::selection::Selection;
use super::watch_events::{self, Lines};
use crate::answer::FRAME_BYTES;
use crate::failure::Failure;
use crate::metrics::WatchCounts;
use crate::negotiation::Form;
use crate::printing::IncludeObject;
use crate::query::ListOptions;
use crate::route::Target;

/// How often a client that takes bookmarks gets one while nothing else happens, as upstream does.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch without `timeoutSeconds` ends between this and twice this, so that not all come back at once.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// No watch lasts longer, whatever the client asks for.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Tells watches when the server is to end.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(pub(crate) watch::Receiver<bool>);

impl Shutdown {
    /// Whether the server is to end.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the server is to end.
    pub(crate) async fn asked(&mut self) {
        // An error means that the server's handle was dropped, which ends it too.
        self.0.wait_for(|asked| *asked).await.ok();
    }
}

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
            Err(StoreError::Compacted { asked, oldest }) => return Ok(too_old(asked, oldest, form)),
            Err(other) => return Err(Failure::of_read(&other)),
        };
        let mut period = tokio::time::interval(BOOKMARK_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        period.reset();
        self.watch_counts.watches(target.kind, 1);
        let telling = Telling {
            counts: self.watch_counts.clone(),
            lines,
            initial: start.initial.into_iter(),
            initial_ends_at: start.bookmark_at,
            watch: start.watch,
            bookmarks: options.bookmarks,
            period,
            deadline: Instant::now() + timeout(options.timeout_seconds),
            shutdown: self.shutdown.clone(),
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
    initial: std::vec::IntoIter<Entry>,
    /// The revision of the bookmark behind the initial objects, until it was told.
    initial_ends_at: Option<Revision>,
    watch: Watch,
    bookmarks: bool,
    period: Interval,
    deadline: Instant,
    shutdown: Shutdown,
    is_over: bool,
}

/// What a watch waits for.
enum Happening {
    Event(Result<Arc<Event>, StoreError>),
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
        let mut out = BytesMut::new();
        while out.is_empty() {
            if self.is_over {
                return None;
            }
            if self.tell_initial(&mut out) {
                continue;
            }
            match self.happening().await {
                Happening::Event(event) => self.tell_events(event, &mut out),
                Happening::Bookmark => self.tell_progress(&mut out),
                Happening::End => {
                    self.is_over = true;
                    if self.bookmarks {
                        self.tell_progress(&mut out);
                    }
                }
            }
        }
        self.counts.told(self.lines.kind, self.lines.take_told());
        Some(out.freeze())
    }

    /// Tells initial objects; false when all were told before.
    fn tell_initial(&mut self, out: &mut BytesMut) -> bool {
        let before = self.initial.len();
        while out.len() < FRAME_BYTES
            && let Some(entry) = self.initial.next()
        {
            self.lines.initial(&entry.key, &entry.value, out);
        }
        if self.initial.len() == 0
            && let Some(revision) = self.initial_ends_at.take()
        {
            self.lines.bookmark(revision, true, out);
            return true;
        }
        before > 0
    }

    async fn happening(&mut self) -> Happening {
        tokio::select! {
            biased;
            () = self.shutdown.asked() => Happening::End,
            () = tokio::time::sleep_until(self.deadline) => Happening::End,
            event = self.watch.next() => Happening::Event(event),
            _ = self.period.tick(), if self.bookmarks => Happening::Bookmark,
        }
    }

    /// Tells an event and those that wait behind it.
    fn tell_events(&mut self, first: Result<Arc<Event>, StoreError>, out: &mut BytesMut) {
        let mut next = first.map(Some);
        loop {
            match next {
                Ok(Some(event)) => self.lines.event(&event, out),
                Ok(None) => return,
                Err(error) => {
                    tracing::info!(prefix = %self.lines.selection.prefix, %error, "a watch was cut");
                    let failure = Failure::expired("too old resource version: the watch did not keep up");
                    watch_events::error(&failure, self.lines.form.encoding, out);
                    self.is_over = true;
                    return;
                }
            }
            if out.len() >= FRAME_BYTES {
                return;
            }
            next = self.watch.try_next();
        }
    }

    fn tell_progress(&mut self, out: &mut BytesMut) {
        let revision = self.watch.progress();
        if revision.0 > 0 {
            self.lines.bookmark(revision, false, out);
        }
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
