//! List-watch: an endless stream of the current state of a collection.
//!
//! The collection is listed in pages, then watched from the revision of the list. A broken watch is resumed. If its
//! revision was compacted (410), or is newer than the server's history, the collection is listed again. Objects that
//! vanished meanwhile are reported as deletions. A consumer that applies all events is therefore never wrong, only
//! late. A refused request (403) reports nothing: the objects that were reported stay until a list does not contain
//! them.

mod keys;
mod names;
mod shared;
mod stream;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::ClientError;
use crate::page_size::PageSize;
use crate::request::{Client, JSON, decode};
use tokio::sync::mpsc;

pub use shared::{SharedWatch, Subscription};

use keys::Keys;
use stream::{Lines, WatchEvent};

/// Objects per page of a list. Larger pages are hardly faster for a large collection, but need the memory of a
/// whole page on both sides.
const PAGE_OBJECTS: usize = 500;
/// Seconds after which the server ends a watch, so that load is redistributed over servers.
const WATCH_SECONDS: u32 = 300;
/// First back-off after a failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
/// Longest back-off: the delay after the server is back.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A change of a collection.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// The object is new or changed.
    Applied(T),
    /// The object is deleted.
    Deleted(ObjectKey),
    /// A complete list has been reported; sent after each one.
    Synced,
    /// The object exists but is malformed; others are not affected. The consumer decides about earlier data of the
    /// object.
    Malformed {
        /// Key of the object, as far as its metadata is readable.
        key: ObjectKey,
        /// Description of the fault.
        error: String,
    },
}

/// Selection of a part of a collection.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Namespace; `None` for all.
    pub namespace: Option<String>,
    /// Label selector, or "".
    pub label_selector: String,
    /// Field selector, or "".
    pub field_selector: String,
}

/// Watches the part of `T`'s collection that `query` selects.
pub fn watch<T: Resource>(client: &Client, query: Query) -> Watch<T> {
    Watch {
        client: client.clone(),
        query,
        state: State::Listing {
            continue_token: String::new(),
            seen: Keys::default(),
        },
        known: Keys::default(),
        ready: VecDeque::new(),
        page_size: PageSize::new(PAGE_OBJECTS),
        back_off: BACK_OFF_MIN,
        lists_without_watch: 0,
        field_selection: FieldSelection::Sent,
        is_field_selector_optional: false,
        has_warned_of_field_selector: false,
        has_warned_of_missing_kind: false,
        kind: PhantomData,
    }
}

/// A stream of events; see [`watch`].
pub struct Watch<T> {
    client: Client,
    query: Query,
    state: State,
    /// Objects that were reported to the consumer, to find those that vanished between two lists.
    known: Keys,
    ready: VecDeque<Event<T>>,
    page_size: PageSize,
    back_off: Duration,
    /// Lists since the last event of a watch: their revisions were compacted before a watch could start from them.
    lists_without_watch: u32,
    field_selection: FieldSelection,
    is_field_selector_optional: bool,
    /// True after the warning of a rejected field selector, which is logged once.
    has_warned_of_field_selector: bool,
    /// True after the warning that the server does not serve the kind, which is logged once until a list succeeds.
    has_warned_of_missing_kind: bool,
    kind: PhantomData<T>,
}

/// Use of the field selector between two lists. A watch selects the same objects as its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldSelection {
    /// Requests have the field selector.
    Sent,
    /// The server rejected the field selector; requests are without it.
    Omitted,
}

/// State of a watch.
enum State {
    /// A list is read, page by page.
    Listing { continue_token: String, seen: Keys },
    /// Everything up to the revision is reported, and no watch is open.
    Idle { revision: String },
    /// A watch is open.
    Watching { revision: String, lines: Lines },
}

impl<T: Resource> Watch<T> {
    /// Reads the whole collection from a server that rejects the field selector (400), because the field is newer than
    /// the server. The consumer has to ignore the objects that the field selector excludes. Each list from the beginning
    /// tries the field selector again, so that an upgrade of the server is detected.
    #[must_use]
    pub fn with_optional_field_selector(self) -> Self {
        Self {
            is_field_selector_optional: true,
            ..self
        }
    }

    /// Returns the next event. Failures are retried with back-off and logged; the stream never ends. Dropping the
    /// future loses no event, but a pending request starts over.
    pub async fn next(&mut self) -> Event<T> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            match self.advance().await {
                Ok(()) => self.back_off = BACK_OFF_MIN,
                Err(error) => self.recover(&error).await,
            }
        }
    }

    /// Runs the watch in a task, which ends when the receiver is dropped. Consumers that wait for several sources
    /// need this: cancelling [`Watch::next`] cancels its request.
    pub fn into_channel(mut self, capacity: usize) -> mpsc::Receiver<Event<T>> {
        let (sender, receiver) = mpsc::channel(capacity);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = self.next() => event,
                    () = sender.closed() => return,
                };
                if sender.send(event).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Returns the next event if it has arrived, for consumers that batch.
    pub fn next_ready(&mut self) -> Option<Event<T>> {
        self.ready.pop_front()
    }

    /// Returns the revision up to which the history was read; 0 while a list is read. Right after [`Event::Synced`]
    /// it is the revision of the list.
    pub fn revision(&self) -> u64 {
        match &self.state {
            State::Listing { .. } => 0,
            State::Idle { revision } | State::Watching { revision, .. } => revision.parse().unwrap_or(0),
        }
    }

    async fn advance(&mut self) -> Result<(), ClientError> {
        match &mut self.state {
            State::Listing { continue_token, .. } => {
                let token = continue_token.clone();
                self.list_page(&token).await
            }
            State::Idle { revision } => {
                let revision = revision.clone();
                let path = self.watch_path(&revision);
                let response = self
                    .client
                    .open(Method::GET, &path, JSON, bytes::Bytes::new())
                    .await?;
                self.state = State::Watching {
                    revision,
                    lines: Lines::new(path, response.into_body()),
                };
                Ok(())
            }
            State::Watching { .. } => self.read_watch().await,
        }
    }

    /// Logs a failure, waits, and chooses the next state.
    async fn recover(&mut self, error: &ClientError) {
        if error.is_gone() {
            let pause = pause_before_list(self.lists_without_watch);
            tracing::info!(
                kind = T::KIND,
                ?pause,
                "watched revision compacted; listing again"
            );
            self.lists_without_watch = self.lists_without_watch.saturating_add(1);
            self.start_list();
            tokio::time::sleep(with_jitter(pause)).await;
            return;
        }
        if self.can_leave_field_selector_out(error) {
            self.leave_field_selector_out(error);
            return;
        }
        if matches!(self.state, State::Listing { .. }) && self.page_size.shrink(error) {
            let objects = self.page_size.objects();
            tracing::info!(
                kind = T::KIND,
                objects,
                "page of a list too large; reading smaller ones"
            );
            return;
        }
        self.log_failure(error);
        if error.is_ahead_of_server() {
            // Waiting for the revision could miss objects created before it.
            self.start_list();
        } else {
            self.interrupt();
        }
        tokio::time::sleep(with_jitter(self.back_off)).await;
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }

    fn log_failure(&mut self, error: &ClientError) {
        if !error.is_not_found() {
            tracing::warn!(kind = T::KIND, %error, pause = ?self.back_off, "list-watch failed; retrying");
        } else if !self.has_warned_of_missing_kind {
            self.has_warned_of_missing_kind = true;
            tracing::warn!(kind = T::KIND, %error, "kind not served by the API server; retrying");
        }
    }

    /// Returns true if the server rejected a request whose field selector is optional.
    fn can_leave_field_selector_out(&self, error: &ClientError) -> bool {
        error.code() == Some(400)
            && self.is_field_selector_optional
            && !self.query.field_selector.is_empty()
            && self.field_selection == FieldSelection::Sent
    }

    /// Lists the collection without the field selector.
    fn leave_field_selector_out(&mut self, error: &ClientError) {
        if !self.has_warned_of_field_selector {
            self.has_warned_of_field_selector = true;
            tracing::warn!(
                kind = T::KIND,
                selector = self.query.field_selector,
                %error,
                "field selector rejected by the server; reading all objects"
            );
        }
        self.start_list();
        self.field_selection = FieldSelection::Omitted;
    }

    /// Leaves a broken watch; an interrupted list starts over.
    fn interrupt(&mut self) {
        match &mut self.state {
            State::Watching { revision, .. } => {
                self.state = State::Idle {
                    revision: std::mem::take(revision),
                };
            }
            State::Idle { .. } => {}
            State::Listing { .. } => self.start_list(),
        }
    }

    /// Starts a list, with the field selector: the server may have been upgraded.
    fn start_list(&mut self) {
        self.field_selection = FieldSelection::Sent;
        let listing = State::Listing {
            continue_token: String::new(),
            seen: Keys::default(),
        };
        // Objects of the first pages are reported although the list was not finished: they may be deleted before the
        // next list.
        if let State::Listing { seen, .. } = std::mem::replace(&mut self.state, listing) {
            self.known.extend(seen);
        }
    }

    async fn list_page(&mut self, token: &str) -> Result<(), ClientError> {
        let path = self.list_path(token);
        let body = self
            .client
            .send(Method::GET, &path, JSON, bytes::Bytes::new())
            .await?;
        let page = read_page::<T>(&path, &body)?;
        self.has_warned_of_missing_kind = false;
        self.page_size.grow(body.len());
        for event in page.items.unwrap_or_default() {
            let key = match &event {
                Event::Applied(object) => object.metadata().key(),
                Event::Malformed { key, .. } => key.clone(),
                Event::Deleted(_) | Event::Synced => continue,
            };
            if let State::Listing { seen, .. } = &mut self.state {
                seen.insert(&key);
            }
            self.ready.push_back(event);
        }
        match page.metadata.continue_token.filter(|token| !token.is_empty()) {
            Some(next) => {
                if let State::Listing { continue_token, .. } = &mut self.state {
                    *continue_token = next;
                }
            }
            None => self.finish_list(page.metadata.resource_version),
        }
        Ok(())
    }

    fn finish_list(&mut self, revision: String) {
        let state = std::mem::replace(&mut self.state, State::Idle { revision });
        let State::Listing { seen, .. } = state else {
            return;
        };
        let before = std::mem::replace(&mut self.known, seen);
        let gone = before.without(&self.known);
        self.ready.extend(gone.into_iter().map(Event::Deleted));
        self.ready.push_back(Event::Synced);
    }

    /// Waits for lines of the watch and reads a batch of those that have arrived.
    async fn read_watch(&mut self) -> Result<(), ClientError> {
        let State::Watching { lines, .. } = &mut self.state else {
            return Ok(());
        };
        let batch = lines.next_batch(&self.client).await?;
        if batch.is_empty() {
            self.interrupt();
        }
        for line in batch {
            self.take_line(&line)?;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), ClientError> {
        let event: WatchEvent<'_> = decode("watch", line)?;
        if event.kind == "ERROR" {
            return Err(event.failure::<T>());
        }
        let version = event.resource_version();
        match event.kind.as_ref() {
            "BOOKMARK" => {}
            "DELETED" => {
                let key = key_of(event.object.get());
                self.known.remove(&key);
                self.ready.push_back(Event::Deleted(key));
            }
            _ => {
                let read = read_object::<T>(event.object.get());
                let key = match &read {
                    Event::Applied(object) => object.metadata().key(),
                    _ => key_of(event.object.get()),
                };
                self.known.insert(&key);
                self.ready.push_back(read);
            }
        }
        if let (State::Watching { revision, .. }, Some(version)) = (&mut self.state, version) {
            *revision = version;
        }
        self.lists_without_watch = 0;
        Ok(())
    }

    fn list_path(&self, token: &str) -> String {
        let mut path = format!(
            "{}?limit={}",
            T::collection(self.query.namespace.as_deref()),
            self.page_size.objects()
        );
        self.query.append_to(&mut path, self.field_selection);
        if !token.is_empty() {
            path.push_str("&continue=");
            push_escaped(&mut path, token);
        }
        path
    }

    fn watch_path(&self, revision: &str) -> String {
        let mut path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={revision}",
            T::collection(self.query.namespace.as_deref())
        );
        self.query.append_to(&mut path, self.field_selection);
        path
    }
}

/// Returns the delay before the collection is listed again after a 410. The first delay is zero. Back-off follows,
/// for a server that compacts revisions faster than they can be watched.
fn pause_before_list(lists_without_watch: u32) -> Duration {
    match lists_without_watch.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => BACK_OFF_MIN
            .saturating_mul(1 << doublings.min(16))
            .min(BACK_OFF_MAX),
    }
}

/// Adds jitter to a pause, so that clients of a failed server do not return at the same time.
fn with_jitter(pause: Duration) -> Duration {
    pause + pause.mul_f64(fastrand::f64() / 2.0)
}

impl Query {
    fn append_to(&self, path: &mut String, fields: FieldSelection) {
        let field_selector = match fields {
            FieldSelection::Sent => self.field_selector.as_str(),
            FieldSelection::Omitted => "",
        };
        for (name, selector) in [
            ("labelSelector", self.label_selector.as_str()),
            ("fieldSelector", field_selector),
        ] {
            if !selector.is_empty() {
                path.push('&');
                path.push_str(name);
                path.push('=');
                push_escaped(path, selector);
            }
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
struct ListPage<I> {
    metadata: ListMeta,
    items: Option<Vec<I>>,
}

/// Metadata of a page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// Parses a page in one pass; in two, object by object, if an object is malformed.
fn read_page<T: Resource>(path: &str, body: &[u8]) -> Result<ListPage<Event<T>>, ClientError> {
    if let Ok(ListPage { metadata, items }) = serde_json::from_slice::<ListPage<T>>(body) {
        let items = items.map(|items| items.into_iter().map(Event::Applied).collect());
        return Ok(ListPage { metadata, items });
    }
    let page: ListPage<&RawValue> = decode(path, body)?;
    let items = page
        .items
        .map(|items| items.into_iter().map(|item| read_object(item.get())));
    Ok(ListPage {
        metadata: page.metadata,
        items: items.map(Iterator::collect),
    })
}

/// Parses one object; a malformed one keeps its key.
fn read_object<T: Resource>(json: &str) -> Event<T> {
    match serde_json::from_str::<T>(json) {
        Ok(object) => Event::Applied(object),
        Err(error) => Event::Malformed {
            key: key_of(json),
            error: error.to_string(),
        },
    }
}

fn key_of(json: &str) -> ObjectKey {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Names {
        namespace: String,
        name: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Named {
        metadata: Names,
    }
    let named: Named = serde_json::from_str(json).unwrap_or_default();
    ObjectKey::new(&named.metadata.namespace, &named.metadata.name)
}

/// Appends a query value, percent-encoded (RFC 3986 section 2.1).
pub fn push_escaped(path: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests;
