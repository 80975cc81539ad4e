//! Conditions and taints of a Node as a pure function of its state.
//!
//! Each decision is one write, and the Node is reconciled again after it. Overdue heartbeats set conditions to Unknown
//! first, because the taints follow from the conditions. Taints of other clients stay. The NoExecute taint, which
//! evicts Pods, also needs the grant of the caller: the caller limits the rate of evictions in a zone.

use api::object::{Node, NodeCondition, Taint};

use super::zones::Zone;

/// Conditions that become Unknown without heartbeats.
const HEARTBEAT_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Taint of a Node whose condition Ready is False.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a Node whose condition Ready is Unknown.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of a cordoned Node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that keep new Pods away, with their taints.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// The fields of a Node that determine its conditions and taints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState {
    /// UID of the Node.
    pub uid: String,
    /// resourceVersion that a write replaces.
    pub resource_version: String,
    /// Creation timestamp, RFC 3339.
    pub created: String,
    /// Zone of the Node.
    pub zone: Zone,
    /// Taints of the Node.
    pub taints: Vec<Taint>,
    /// True if the Node is cordoned.
    pub is_unschedulable: bool,
    /// Conditions of the Node.
    pub conditions: Vec<NodeCondition>,
}

impl NodeState {
    /// Extracts the state of `node`.
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

    /// Returns the status of a condition; `None` if the Node never reported it.
    pub fn status(&self, kind: &str) -> Option<&str> {
        let condition = self.conditions.iter().find(|condition| condition.kind == kind)?;
        Some(&condition.status)
    }

    /// Returns true if the condition Ready is True.
    pub fn is_ready(&self) -> bool {
        self.status("Ready") == Some("True")
    }

    /// Returns true if the Node has the eviction taint: a NoExecute taint of this controller, which evicts its Pods.
    pub fn has_eviction_taint(&self) -> bool {
        let is_out =
            |taint: &Taint| taint.effect == "NoExecute" && matches!(&*taint.key, NOT_READY | UNREACHABLE);
        self.taints.iter().any(is_out)
    }
}

/// A condition that becomes Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionChange {
    /// Type of the condition.
    pub kind: &'static str,
    /// Upstream's reason.
    pub reason: &'static str,
    /// Upstream's message.
    pub message: &'static str,
    /// Heartbeat to write if the Node never reported one.
    pub first_heartbeat: Option<String>,
}

/// The next write. The Node is reconciled again after each.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Set conditions to Unknown.
    SetUnknown(Vec<ConditionChange>),
    /// Replace the taints.
    Taint(Vec<Taint>),
}

/// Computes the next write of a Node. `is_eviction_granted` allows the NoExecute taint while the Node is
/// not ready. `now` is the timestamp of new taints, RFC 3339.
pub fn decide(
    node: &NodeState,
    is_heartbeat_overdue: bool,
    is_eviction_granted: bool,
    now: &str,
) -> Option<Step> {
    if is_heartbeat_overdue {
        let changes = unknown_conditions(node);
        if !changes.is_empty() {
            return Some(Step::SetUnknown(changes));
        }
    }
    let taints = taints(node, is_eviction_granted, now);
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
    HEARTBEAT_CONDITIONS.into_iter().filter_map(change).collect()
}

/// Returns the desired taints: foreign ones unchanged, and this controller's according to the conditions.
fn taints(node: &NodeState, is_eviction_granted: bool, now: &str) -> Vec<Taint> {
    let desired = our_taints(node, is_eviction_granted);
    let is_desired = |taint: &Taint| {
        desired
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect)
    };
    let kept = node
        .taints
        .iter()
        .filter(|taint| !is_ours(taint) || is_desired(taint));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in &desired {
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

fn our_taints(node: &NodeState, is_eviction_granted: bool) -> Vec<(&'static str, &'static str)> {
    let mut desired = Vec::new();
    let not_ready = match node.status("Ready") {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    desired.extend(not_ready.map(|key| (key, "NoSchedule")));
    desired.extend(
        not_ready
            .filter(|_| is_eviction_granted)
            .map(|key| (key, "NoExecute")),
    );
    let pressing = PRESSURES
        .iter()
        .filter(|(kind, _)| node.status(kind) == Some("True"));
    desired.extend(pressing.map(|(_, key)| (*key, "NoSchedule")));
    desired.extend(node.is_unschedulable.then_some((UNSCHEDULABLE, "NoSchedule")));
    desired
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
