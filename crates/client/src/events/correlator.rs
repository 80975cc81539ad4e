//! Correlation of Events as in client-go's recorder. Repeated Events increment a count, many similar ones become one,
//! and the Events of an object have a rate limit. Pure.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};

/// Maximum number of entries per cache; the least recently used one is evicted.
const CACHE_ENTRIES_MAX: usize = 4_096;
/// Limit of messages within [`SIMILAR_SECONDS`] that differ only in their text; further ones are combined.
const SIMILAR_MESSAGES_MAX: usize = 10;
/// Period in seconds in which similar messages are counted together.
const SIMILAR_SECONDS: f64 = 600.0;
/// Events of one component about one object that are written in a burst.
const BURST: f64 = 25.0;
/// Seconds after which one more Event of one component about one object is written.
const REFILL_SECONDS: f64 = 300.0;

/// An occurrence that is reported as an Event.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    /// Reporting component.
    pub(super) component: String,
    /// Involved object: `apiVersion`, `kind`, `namespace`, `name`, `uid`.
    pub(super) involved: Value,
    /// Namespace of the Event: that of the object, or `default`.
    pub(super) namespace: String,
    /// True for type `Warning`.
    pub(super) is_warning: bool,
    /// Machine-readable reason.
    pub(super) reason: String,
    /// Human-readable message.
    pub(super) message: String,
}

/// A write of an Event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EventWrite {
    /// Creates this Event.
    Create(Value),
    /// Patches the Event of this name; creates it again if the server has deleted it.
    Patch {
        /// Name of the Event in the namespace of the occurrence.
        name: String,
        /// Merge patch of count, last time and message.
        patch: Value,
        /// The Event to create if the server has none of this name.
        create: Value,
    },
}

/// Counts, combines and limits Events, with the limits of client-go's `EventCorrelator`.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// Host of the components, if Events name it.
    host: Option<String>,
    budgets: LruMap<Budget>,
    similar: LruMap<SimilarMessages>,
    written: LruMap<WrittenEvent>,
}

/// Events that one component may still write about one object.
#[derive(Debug)]
struct Budget {
    left: f64,
    since: Timestamp,
}

/// Messages of one reason about one object.
#[derive(Debug)]
struct SimilarMessages {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// Event that the server holds.
#[derive(Clone, Debug)]
struct WrittenEvent {
    name: String,
    count: u64,
    first: Timestamp,
}

impl Correlator {
    /// Creates a correlator for the components of `host` (`source.host` and `reportingInstance` of the Events).
    pub(super) fn of_host(host: &str) -> Self {
        Self {
            host: Some(host.to_owned()),
            ..Self::default()
        }
    }

    /// Correlates an occurrence. Returns the write for it, or `None` if the rate limit of the object is exceeded.
    pub(super) fn observe(&mut self, occurrence: &Occurrence, now: Timestamp) -> Option<EventWrite> {
        let object = format!("{}|{}", occurrence.component, occurrence.involved);
        if !self.has_budget(&object, now) {
            return None;
        }
        let kind = format!("{object}|{}|{}", occurrence.is_warning, occurrence.reason);
        let (message, key) = if self.exceeds_similar_limit(&kind, &occurrence.message, now) {
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
        let mut event = event(occurrence, written, &message, now);
        if let Some(host) = &self.host {
            event["source"]["host"] = json!(host);
            event["reportingInstance"] = json!(host);
        }
        if written.count == 1 {
            return Some(EventWrite::Create(event));
        }
        let patch = json!({"count": written.count, "lastTimestamp": seconds(now), "message": message});
        let name = written.name.clone();
        Some(EventWrite::Patch {
            name,
            patch,
            create: event,
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
    fn exceeds_similar_limit(&mut self, kind: &str, message: &str, now: Timestamp) -> bool {
        let similar = self.similar.entry(kind.to_owned(), || SimilarMessages {
            messages: BTreeSet::new(),
            last: now,
        });
        if now.duration_since(similar.last).as_secs_f64() > SIMILAR_SECONDS {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.contains(message) {
            return false;
        }
        if similar.messages.len() + 1 >= SIMILAR_MESSAGES_MAX {
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
        if self.entries.len() >= CACHE_ENTRIES_MAX && !self.entries.contains_key(&key) {
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

#[cfg(test)]
mod tests;
