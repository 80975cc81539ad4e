//! Events (core/v1), folded as upstream's recorder folds them, so that what happens often costs little and
//! is still seen: the same again raises a count, much that is alike becomes one, and an object that has too
//! much to tell is not listened to for a while.

use std::collections::{BTreeSet, HashMap};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ClientError;
use crate::request::{Client, JSON, MERGE_PATCH};

/// Things of each sort that are remembered; those not heard of for longest go first.
const REMEMBERED_MAX: usize = 4_096;
/// Different messages that are alike in all else, within [`ALIKE_SECONDS`], before they are told as one.
const ALIKE_MAX: usize = 10;
/// How long alike messages are counted together.
const ALIKE_SECONDS: f64 = 600.0;
/// Events that one component may tell of one object at once …
const BURST: f64 = 25.0;
/// … and how long it takes until it may tell one more.
const REFILL_SECONDS: f64 = 300.0;

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Who tells it.
    pub component: String,
    /// The object: `apiVersion`, `kind`, `namespace`, `name`, `uid`.
    pub involved: Value,
    /// Namespace of the Event: the object's, or `default`.
    pub namespace: String,
    /// Whether something is wrong.
    pub is_warning: bool,
    /// One word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Posting {
    /// An Event.
    New(Value),
    /// A merge patch of the Event of this name; `or_else` is to be created if that is gone.
    Again {
        /// Name of the Event, which is in the occurrence's namespace.
        name: String,
        /// What changes: count, last time and message.
        patch: Value,
        /// The Event as a new one.
        or_else: Value,
    },
}

/// Remembers what was told.
#[derive(Debug, Default)]
pub struct Correlator {
    budgets: Recent<Budget>,
    alike: Recent<Alike>,
    told: Recent<Told>,
}

/// How much may still be told of an object.
#[derive(Debug)]
struct Budget {
    left: f64,
    since: Timestamp,
}

/// The messages that were told and differ in nothing else.
#[derive(Debug)]
struct Alike {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// An Event that was written.
#[derive(Clone, Debug)]
struct Told {
    name: String,
    count: u64,
    first: Timestamp,
}

impl Correlator {
    /// Takes in an occurrence; returns what is to be written, or nothing if the object told too much.
    pub fn observe(&mut self, occurrence: &Occurrence, now: Timestamp) -> Option<Posting> {
        let object = format!("{}|{}", occurrence.component, occurrence.involved);
        if !self.may_tell(&object, now) {
            return None;
        }
        let kind = format!("{object}|{}|{}", occurrence.is_warning, occurrence.reason);
        let (message, key) = if self.is_one_of_many(&kind, &occurrence.message, now) {
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
        let fresh = || Told {
            name: name_of(occurrence, now),
            count: 0,
            first: now,
        };
        let told = self.told.entry(key, fresh);
        told.count += 1;
        let event = event(occurrence, told, &message, now);
        if told.count == 1 {
            return Some(Posting::New(event));
        }
        let patch = json!({"count": told.count, "lastTimestamp": seconds(now), "message": message});
        let name = told.name.clone();
        Some(Posting::Again {
            name,
            patch,
            or_else: event,
        })
    }

    fn may_tell(&mut self, object: &str, now: Timestamp) -> bool {
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

    /// Whether the message is one of too many that are alike.
    fn is_one_of_many(&mut self, kind: &str, message: &str, now: Timestamp) -> bool {
        let alike = self.alike.entry(kind.to_owned(), || Alike {
            messages: BTreeSet::new(),
            last: now,
        });
        if now.duration_since(alike.last).as_secs_f64() > ALIKE_SECONDS {
            alike.messages.clear();
        }
        alike.last = now;
        if alike.messages.contains(message) {
            return false;
        }
        if alike.messages.len() + 1 >= ALIKE_MAX {
            return true;
        }
        alike.messages.insert(message.to_owned());
        false
    }
}

fn event(occurrence: &Occurrence, told: &Told, message: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": told.name, "namespace": occurrence.namespace},
        "involvedObject": occurrence.involved,
        "type": if occurrence.is_warning { "Warning" } else { "Normal" },
        "reason": occurrence.reason,
        "message": message,
        "count": told.count,
        "firstTimestamp": seconds(told.first),
        "lastTimestamp": seconds(now),
        "source": {"component": occurrence.component},
        "reportingComponent": occurrence.component,
    })
}

/// The name of an Event: the object's, and the time, as upstream makes it.
fn name_of(occurrence: &Occurrence, now: Timestamp) -> String {
    let name = occurrence.involved["name"].as_str().unwrap_or_default();
    format!("{name}.{:x}", now.as_nanosecond())
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A map that forgets what was not asked for for longest when it is full.
#[derive(Debug)]
struct Recent<V> {
    entries: HashMap<String, (u64, V)>,
    asked: u64,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            asked: 0,
        }
    }
}

impl<V> Recent<V> {
    fn entry(&mut self, key: String, fresh: impl FnOnce() -> V) -> &mut V {
        self.asked += 1;
        let asked = self.asked;
        if self.entries.len() >= REMEMBERED_MAX && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, (asked, _))| *asked);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        let (last, value) = self.entries.entry(key).or_insert_with(|| (asked, fresh()));
        *last = asked;
        value
    }
}

/// Writes an Event, or that it happened again.
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
                // Events go after a while.
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
