//! What should be said about a Node: its conditions while it is silent, and its taints.

use api::object::{Node, NodeCondition, Taint};

use super::zones::Zone;

/// Conditions that nobody can know of a silent Node.
const UNKNOWN_WHEN_SILENT: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// The taint of a Node that says that it is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a silent Node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a Node that somebody cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that keep new Pods away while they hold, and their taints.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// What of a Node decides about its conditions and taints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState {
    /// Its incarnation.
    pub uid: String,
    /// The revision that writes replace.
    pub resource_version: String,
    /// When it was created, RFC 3339.
    pub created: String,
    /// Where it is.
    pub zone: Zone,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub is_unschedulable: bool,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
}

impl NodeState {
    /// The state of `node`.
    pub fn of(node: &Node) -> Self {
        Self {
            uid: node.metadata.uid.clone(),
            resource_version: node.metadata.resource_version.clone(),
            created: node.metadata.creation_timestamp.clone().unwrap_or_default(),
            zone: Zone::of(node),
            taints: node.spec.taints.clone(),
            is_unschedulable: node.spec.unschedulable,
            conditions: node.status.conditions.clone(),
        }
    }

    /// The status of a condition; `None` if the Node never said.
    pub fn status(&self, kind: &str) -> Option<&str> {
        let condition = self.conditions.iter().find(|c| c.kind == kind)?;
        Some(&condition.status)
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.status("Ready") == Some("True")
    }

    /// Whether its taints say that it was taken out of traffic.
    pub fn has_left_traffic(&self) -> bool {
        let is_out =
            |taint: &Taint| taint.effect == "NoExecute" && matches!(&*taint.key, NOT_READY | UNREACHABLE);
        self.taints.iter().any(is_out)
    }
}

/// A condition that becomes Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionChange {
    /// Which.
    pub kind: &'static str,
    /// Upstream's word for it.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: &'static str,
    /// The heartbeat to write where there never was one.
    pub first_heartbeat: Option<String>,
}

/// The next write. After each the Node is looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Its conditions become Unknown.
    SayUnknown(Vec<ConditionChange>),
    /// Its taints become these.
    Taint(Vec<Taint>),
}

/// Judges a Node. `leaves_traffic`: it is to be out of traffic while it is not ready. `now` is the time to write
/// on taints, RFC 3339.
pub fn judge(node: &NodeState, is_silent: bool, leaves_traffic: bool, now: &str) -> Option<Step> {
    if is_silent {
        let changes = unknown_conditions(node);
        if !changes.is_empty() {
            return Some(Step::SayUnknown(changes));
        }
    }
    let taints = taints(node, leaves_traffic, now);
    (taints != node.taints).then_some(Step::Taint(taints))
}

fn unknown_conditions(node: &NodeState) -> Vec<ConditionChange> {
    let change = |kind: &'static str| match node.status(kind) {
        Some("Unknown") => None,
        Some(_) => Some(ConditionChange {
            kind,
            reason: "NodeStatusUnknown",
            message: "Kubelet stopped posting node status.",
            first_heartbeat: None,
        }),
        None => Some(ConditionChange {
            kind,
            reason: "NodeStatusNeverUpdated",
            message: "Kubelet never posted node status.",
            first_heartbeat: Some(node.created.clone()),
        }),
    };
    UNKNOWN_WHEN_SILENT.into_iter().filter_map(change).collect()
}

/// The taints that are wanted: those of others as they are, and ours as the conditions say.
fn taints(node: &NodeState, leaves_traffic: bool, now: &str) -> Vec<Taint> {
    let wanted = our_taints(node, leaves_traffic);
    let is_wanted = |taint: &Taint| {
        wanted
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect)
    };
    let kept = node
        .taints
        .iter()
        .filter(|taint| !is_ours(taint) || is_wanted(taint));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in &wanted {
        if !taints
            .iter()
            .any(|taint| taint.key == *key && taint.effect == *effect)
        {
            taints.push(Taint {
                key: (*key).to_owned(),
                effect: (*effect).to_owned(),
                time_added: Some(now.to_owned()),
                ..Taint::default()
            });
        }
    }
    taints
}

fn our_taints(node: &NodeState, leaves_traffic: bool) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    let lost = match node.status("Ready") {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    wanted.extend(lost.map(|key| (key, "NoSchedule")));
    wanted.extend(lost.filter(|_| leaves_traffic).map(|key| (key, "NoExecute")));
    let pressing = PRESSURES
        .iter()
        .filter(|(kind, _)| node.status(kind) == Some("True"));
    wanted.extend(pressing.map(|(_, key)| (*key, "NoSchedule")));
    wanted.extend(node.is_unschedulable.then_some((UNSCHEDULABLE, "NoSchedule")));
    wanted
}

fn is_ours(taint: &Taint) -> bool {
    let is_lost = matches!(&*taint.key, NOT_READY | UNREACHABLE);
    match &*taint.effect {
        "NoExecute" => is_lost,
        "NoSchedule" => {
            is_lost || taint.key == UNSCHEDULABLE || PRESSURES.iter().any(|(_, key)| taint.key == *key)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
