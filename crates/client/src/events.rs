//! Events (core/v1), correlated as in upstream's recorder: repeated Events increment a count, many similar ones are
//! combined, and Events of an object are rate-limited.

use std::collections::{BTreeSet, HashMap};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ClientError;
use crate::request::{Client, JSON, MERGE_PATCH};

/// Entries per cache; the least recently used one is evicted.
const REMEMBERED_MAX: usize = 4_096;
/// Limit of messages within [`ALIKE_SECONDS`] that differ only in their text; further ones are combined.
const ALIKE_MAX: usize = 10;
/// Period in seconds in which similar messages are counted together.
const ALIKE_SECONDS: f64 = 600.0;
/// Burst of Events of one component about one object …
const BURST: f64 = 25.0;
/// … and seconds until one more is allowed.
const REFILL_SECONDS: f64 = 300.0;

/// An occurrence that is reported as an Event.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Reporting component.
    pub component: String,
    /// Involved object: `apiVersion`, `kind`, `namespace`, `name`, `uid`.
    pub involved: Value,
    /// Namespace of the Event: that of the object, or `default`.
    pub namespace: String,
    /// True for type `Warning`.
    pub is_warning: bool,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

/// A write of an Event.
#[derive(Clone, Debug, PartialEq)]
pub enum Posting {
    /// Create this Event.
    New(Value),
    /// Patch the Event of this name; create `or_else` if it does not exist.
    Again {
        /// Name of the Event in the namespace of the occurrence.
        name: String,
        /// Merge patch of count, last time and message.
        patch: Value,
        /// The Event to create.
        or_else: Value,
    },
}

/// Correlates Events; see the module documentation.
///
/// ```
/// use client::events::{Correlator, Occurrence, Posting};
/// use serde_json::json;
///
/// let occurrence = Occurrence {
///     component: "endpoint-slice-controller".to_owned(),
///     involved: json!({"kind": "Service", "namespace": "default", "name": "web"}),
///     namespace: "default".to_owned(),
///     is_warning: true,
///     reason: "FailedToUpdateEndpointSlices".to_owned(),
///     message: "timeout".to_owned(),
/// };
/// let mut correlator = Correlator::default();
/// let now = jiff::Timestamp::UNIX_EPOCH;
/// assert!(matches!(correlator.observe(&occurrence, now), Some(Posting::New(_))));
/// assert!(matches!(correlator.observe(&occurrence, now), Some(Posting::Again { .. })));
/// ```
#[derive(Debug, Default)]
pub struct Correlator {
    budgets: LruMap<Budget>,
    similar: LruMap<SimilarMessages>,
    written: LruMap<WrittenEvent>,
}

/// Rate limit of an object.
#[derive(Debug)]
struct Budget {
    left: f64,
    since: Timestamp,
}

/// Similar messages.
#[derive(Debug)]
struct SimilarMessages {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// A written Event.
#[derive(Clone, Debug)]
struct WrittenEvent {
    name: String,
    count: u64,
    first: Timestamp,
}

impl Correlator {
    /// Correlates an occurrence. Returns the write for it, or `None` if the rate limit of the object is exceeded.
    pub fn observe(&mut self, occurrence: &Occurrence, now: Timestamp) -> Option<Posting> {
        let object = format!("{}|{}", occurrence.component, occurrence.involved);
        if !self.has_budget(&object, now) {
            return None;
        }
        let kind = format!("{object}|{}|{}", occurrence.is_warning, occurrence.reason);
        let (message, key) = if self.is_combined(&kind, &occurrence.message, now) {
            (
                format!("(combined from similar events): {}", occurrence.message),
                kind,
            )
        } else {
            (
                occurrence.message.clone(),
                format!("{kind}|{}", occurrence.message),
            )
        };
        let create = || WrittenEvent {
            name: name_of(occurrence, now),
            count: 0,
            first: now,
        };
        let written = self.written.entry(key, create);
        written.count += 1;
        let event = event(occurrence, written, &message, now);
        if written.count == 1 {
            return Some(Posting::New(event));
        }
        let patch = json!({"count": written.count, "lastTimestamp": seconds(now), "message": message});
        let name = written.name.clone();
        Some(Posting::Again {
            name,
            patch,
            or_else: event,
        })
    }

    fn has_budget(&mut self, object: &str, now: Timestamp) -> bool {
        let budget = self.budgets.entry(object.to_owned(), || Budget {
            left: BURST,
            since: now,
        });
        let passed = now.duration_since(budget.since).as_secs_f64().max(0.0);
        budget.left = (budget.left + passed / REFILL_SECONDS).min(BURST);
        budget.since = now;
        let may = budget.left >= 1.0;
        if may {
            budget.left -= 1.0;
        }
        may
    }

    /// Returns true if too many similar messages exist.
    fn is_combined(&mut self, kind: &str, message: &str, now: Timestamp) -> bool {
        let similar = self.similar.entry(kind.to_owned(), || SimilarMessages {
            messages: BTreeSet::new(),
            last: now,
        });
        if now.duration_since(similar.last).as_secs_f64() > ALIKE_SECONDS {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.contains(message) {
            return false;
        }
        if similar.messages.len() + 1 >= ALIKE_MAX {
            return true;
        }
        similar.messages.insert(message.to_owned());
        false
    }
}

fn event(occurrence: &Occurrence, written: &WrittenEvent, message: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": written.name, "namespace": occurrence.namespace},
        "involvedObject": occurrence.involved,
        "type": if occurrence.is_warning { "Warning" } else { "Normal" },
        "reason": occurrence.reason,
        "message": message,
        "count": written.count,
        "firstTimestamp": seconds(written.first),
        "lastTimestamp": seconds(now),
        "source": {"component": occurrence.component},
        "reportingComponent": occurrence.component,
    })
}

/// Returns the name of an Event: that of the object and the time, as upstream.
fn name_of(occurrence: &Occurrence, now: Timestamp) -> String {
    let name = occurrence.involved["name"].as_str().unwrap_or_default();
    format!("{name}.{:x}", now.as_nanosecond())
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A map that evicts the least recently used entry.
#[derive(Debug)]
struct LruMap<V> {
    entries: HashMap<String, (u64, V)>,
    accesses: u64,
}

impl<V> Default for LruMap<V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            accesses: 0,
        }
    }
}

impl<V> LruMap<V> {
    fn entry(&mut self, key: String, create: impl FnOnce() -> V) -> &mut V {
        self.accesses += 1;
        let accesses = self.accesses;
        if self.entries.len() >= REMEMBERED_MAX && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, (accesses, _))| *accesses);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        let (last, value) = self.entries.entry(key).or_insert_with(|| (accesses, create()));
        *last = accesses;
        value
    }
}

/// Creates or patches an Event.
///
/// # Errors
///
/// Returns [`ClientError`] if the server rejects the write.
pub async fn post(client: &Client, namespace: &str, posting: Posting) -> Result<(), ClientError> {
    let collection = format!("/api/v1/namespaces/{namespace}/events");
    let event = match posting {
        Posting::New(event) => event,
        Posting::Again { name, patch, or_else } => {
            let path = format!("{collection}/{name}");
            let patched = client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                .await;
            match patched {
                // Servers delete Events after a while.
                Err(error) if error.is_not_found() => or_else,
                patched => return patched.map(drop),
            }
        }
    };
    client
        .request(Method::POST, &collection, JSON, Some(&event))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
