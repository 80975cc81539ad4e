//! Conditions of ServiceExports and ServiceImports.

use std::collections::{BTreeMap, BTreeSet};

use api::object::TimedCondition;
use jiff::Timestamp;

use super::cluster_id::ClusterId;
use super::resolution::Resolution;

/// Validity of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    /// The Service does not exist.
    NoService,
    /// A Service of this type cannot be exported: ExternalName, or derived from an import.
    InvalidServiceType,
}

/// A condition without the time of its transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) kind: &'static str,
    pub(super) is_true: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl State {
    pub(super) fn new(kind: &'static str, is_true: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            is_true,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }

    fn is_shown_by(&self, condition: &TimedCondition) -> bool {
        condition.kind == self.kind
            && condition.status == self.status()
            && condition.reason == self.reason
            && condition.message == self.message
    }
}

/// Returns the conditions of an export.
pub(super) fn export_conditions(validity: Validity, resolution: Option<&Resolution>) -> Vec<State> {
    let (reason, ready, message) = match validity {
        Validity::Valid => ("Valid", "Ready", "the Service is exported"),
        Validity::NoService => ("NoService", "Pending", "the Service does not exist"),
        Validity::InvalidServiceType => (
            "InvalidServiceType",
            "Failed",
            "a Service of type ExternalName, or one that is derived from an import, cannot be exported",
        ),
    };
    let is_valid = validity == Validity::Valid;
    let mut states = vec![
        State::new("Valid", is_valid, reason, message),
        State::new("Ready", is_valid, ready, message),
    ];
    states.extend(resolution.map(conflict_condition));
    states
}

/// Returns the condition `Conflict`, which is the same on all exports of a Service.
fn conflict_condition(resolution: &Resolution) -> State {
    if resolution.conflicts.is_empty() {
        return State::new("Conflict", false, "NoConflicts", "all exports agree");
    }
    let reasons: Vec<&str> = resolution
        .conflicts
        .keys()
        .map(|property| property.reason())
        .collect();
    let details: Vec<String> = resolution
        .conflicts
        .iter()
        .map(|(property, clusters)| format!("{} of {}", property.name(), list(clusters)))
        .collect();
    let message = format!(
        "{} differ from the oldest export, of cluster {}, which decides",
        details.join("; "),
        resolution.oldest
    );
    State::new("Conflict", true, &reasons.join(","), message)
}

/// Returns the condition of an import about the clusters that export it.
pub(super) fn reachability_condition(
    unreachable: &BTreeSet<ClusterId>,
    withdrawn: &BTreeSet<ClusterId>,
) -> State {
    const KIND: &str = "ClustersReachable";
    if unreachable.is_empty() {
        return State::new(KIND, true, "Reachable", "all exporting clusters are reachable");
    }
    let stale: BTreeSet<ClusterId> = unreachable.difference(withdrawn).cloned().collect();
    let mut parts = Vec::new();
    if !stale.is_empty() {
        parts.push(format!("last known endpoints of {}", list(&stale)));
    }
    if !withdrawn.is_empty() {
        parts.push(format!("no endpoints of {}", list(withdrawn)));
    }
    let message = format!(
        "no successful response from {}: {}",
        list(unreachable),
        parts.join("; ")
    );
    State::new(KIND, false, "ClusterUnreachable", message)
}

/// Returns the condition of an import about mirrored slices that the API server rejects.
pub(super) fn mirrored_slices_condition(rejected: &BTreeMap<String, String>) -> State {
    const KIND: &str = "EndpointsMirrored";
    let Some((name, response)) = rejected.first_key_value() else {
        return State::new(KIND, true, "Mirrored", "no EndpointSlice is rejected");
    };
    let message = format!(
        "{} rejected EndpointSlices are left out; the first is {name}: {response}",
        rejected.len()
    );
    State::new(KIND, false, "EndpointSliceRejected", message)
}

fn list(clusters: &BTreeSet<ClusterId>) -> String {
    let names: Vec<&str> = clusters.iter().map(ClusterId::as_str).collect();
    names.join(", ")
}

/// Returns the conditions to write, `None` if the object shows them. Conditions of other types stay. A time changes only
/// with its status.
pub(super) fn update(
    observed: &[TimedCondition],
    states: &[State],
    now: Timestamp,
) -> Option<Vec<TimedCondition>> {
    let is_shown = |state: &State| observed.iter().any(|condition| state.is_shown_by(condition));
    if states.iter().all(is_shown) {
        return None;
    }
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let is_other = |condition: &&TimedCondition| states.iter().all(|state| state.kind != condition.kind);
    let mut conditions: Vec<TimedCondition> = observed.iter().filter(is_other).cloned().collect();
    conditions.extend(states.iter().map(|state| {
        let before = observed
            .iter()
            .find(|condition| condition.kind == state.kind && condition.status == state.status());
        let since = before.and_then(|condition| condition.last_transition_time.clone());
        TimedCondition {
            kind: state.kind.to_owned(),
            status: state.status().to_owned(),
            reason: state.reason.clone(),
            message: state.message.clone(),
            last_transition_time: Some(since.unwrap_or_else(|| time.clone())),
        }
    }));
    Some(conditions)
}
