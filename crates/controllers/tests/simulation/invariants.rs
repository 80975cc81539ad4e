//! Invariants of every single write, in any history.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::expected::would_orphan;
use crate::instance::GRACE;
use crate::server::{Key, Objects};

/// Number of recorded heartbeats of a Node.
const BEATS: usize = 3;

/// Recorded heartbeats and violations.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    wrong: Vec<String>,
    /// The last renewals of each Node's Lease.
    beats: BTreeMap<String, VecDeque<Instant>>,
}

impl Invariants {
    /// Records a violation.
    pub(crate) fn violated(&mut self, subject: String) {
        self.wrong.push(subject);
    }

    /// Returns all violations.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.wrong.clone()
    }

    /// Records a renewal of a Node's Lease.
    pub(crate) fn beat(&mut self, node: &str) {
        let beats = self.beats.entry(node.to_owned()).or_default();
        beats.push_back(Instant::now());
        if beats.len() > BEATS {
            beats.pop_front();
        }
    }

    /// Checks a controller's write of an existing object.
    pub(crate) fn check(
        &mut self,
        writer: &str,
        key: &Key,
        before: &Value,
        after: &Value,
        objects: &Objects,
    ) {
        match key.0.as_str() {
            "nodes" => self.check_node(writer, key, before, after),
            "servicecidrs" => self.check_cidr(writer, before, after, objects),
            _ => {}
        }
    }

    /// A Node with several renewals within the grace period must not become Unknown.
    fn check_node(&mut self, writer: &str, key: &Key, before: &Value, after: &Value) {
        let is_unknown = |node: &Value| ready_of(node) == "Unknown";
        let beats = self.beats.get(&key.2);
        let first = beats
            .filter(|beats| beats.len() == BEATS)
            .and_then(|beats| beats.front());
        let is_renewed = first.is_some_and(|first| first.elapsed() < GRACE - Duration::from_secs(1));
        if is_renewed && is_unknown(after) && !is_unknown(before) {
            self.violated(format!(
                "{writer} declared {} unknown although it renews its Lease",
                key.2
            ));
        }
    }

    /// A range with an address in use must not be released.
    fn check_cidr(&mut self, writer: &str, before: &Value, after: &Value, objects: &Objects) {
        let is_held = |cidr: &Value| cidr["metadata"]["finalizers"][0].is_string();
        if is_held(before) && !is_held(after) && would_orphan(objects, before) {
            self.violated(format!("{writer} released {before}, which addresses need"));
        }
    }
}

/// Returns the status of the condition Ready; empty if the object has no such condition.
pub(crate) fn ready_of(object: &Value) -> &str {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    ready
        .and_then(|ready| ready["status"].as_str())
        .unwrap_or_default()
}
