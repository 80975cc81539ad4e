//! The Nodes of a DaemonSet, and the Pod for a Node.
//!
//! The node name, the node affinity and the tolerations of the template decide. A NoSchedule taint without toleration
//! keeps new Pods away and lets a present one stay; a NoExecute taint refuses both. Pods of DaemonSets tolerate the
//! taints of Nodes that are not ready, under pressure or cordoned. The affinity of a created Pod names its Node, so
//! that the scheduler binds it to that Node and no other.

use api::object::{ControllerRevision, DaemonSet, Node, Taint};
use api::tree::{child, flag_if_set, items, text, texts};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::replica_set::ReplicaPod;
use crate::scheduler::{SchedulePodSpec, Toleration, matches_node_affinity};
use crate::workload::pods::pod_from;
use crate::workload::revisions::REVISION_LABEL;

/// Taints that every Pod of a DaemonSet tolerates, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Taint that Pods in the network of their Node tolerate as well.
const TOLERATED_IN_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Fitness of a Node for the Pods of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fitness {
    /// The Node is to run a Pod.
    Runs,
    /// The Node keeps its Pod and gets no new one.
    Keeps,
    /// The Node is to run no Pod.
    Refuses,
}

/// The fields of a template that restrict its Nodes.
pub(super) struct Placement {
    spec: SchedulePodSpec,
}

impl Placement {
    /// Reads the template of a DaemonSet. A spec that cannot be read selects no Node.
    pub(super) fn of(set: &DaemonSet) -> Option<Self> {
        let mut spec = SchedulePodSpec::deserialize(child(&set.spec.template, "spec")).ok()?;
        spec.tolerations.extend(tolerations(&set.spec.template));
        Some(Self { spec })
    }

    /// Returns the fitness of a Node.
    pub(super) fn fitness(&self, node: &Node) -> Fitness {
        let is_named = self.spec.node_name.is_empty() || self.spec.node_name == node.metadata.name;
        if !is_named || !matches_node_affinity(&self.spec, node) {
            return Fitness::Refuses;
        }
        let tolerates = |taint: &Taint| {
            self.spec
                .tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        };
        let mut taints: Vec<&Taint> = node
            .spec
            .taints
            .iter()
            .filter(|taint| !tolerates(taint))
            .collect();
        taints.retain(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"));
        if taints.is_empty() {
            Fitness::Runs
        } else if taints.iter().all(|taint| taint.effect == "NoSchedule") {
            Fitness::Keeps
        } else {
            Fitness::Refuses
        }
    }
}

/// Returns the tolerations that Pods of DaemonSets get.
fn tolerations(template: &Value) -> Vec<Toleration> {
    let in_host_network = flag_if_set(child(template, "spec"), "hostNetwork") == Some(true);
    let mut taints = TOLERATED.to_vec();
    taints.extend(in_host_network.then_some(TOLERATED_IN_HOST_NETWORK));
    let toleration = |(key, effect): (&str, &str)| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: effect.to_owned(),
        ..Toleration::default()
    };
    taints.into_iter().map(toleration).collect()
}

/// Returns the Node that a Pod runs on, or that its affinity names.
pub(super) fn node_of(pod: &ReplicaPod) -> Option<&str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let affinity = pod.spec.affinity.as_deref()?;
    let required = child(
        child(affinity, "nodeAffinity"),
        "requiredDuringSchedulingIgnoredDuringExecution",
    );
    let mut terms = items(required, "nodeSelectorTerms").iter();
    terms.find_map(|term| {
        let fields = items(term, "matchFields").iter();
        let mut names = fields.filter(|field| text(field, "key") == "metadata.name");
        texts(names.next()?, "values").first().copied()
    })
}

/// Returns the Pod for a Node.
pub(super) fn pod_for(set: &DaemonSet, node: &str, revision: &ControllerRevision) -> Value {
    let template = &set.spec.template;
    let mut pod = pod_from(set, template, &format!("{}-", set.metadata.name));
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][REVISION_LABEL] = json!(hash_of(revision));
    let mut all = items(child(template, "spec"), "tolerations").to_vec();
    for toleration in tolerations(template) {
        all.push(json!({
            "key": toleration.key,
            "operator": toleration.operator,
            "effect": toleration.effect,
        }));
    }
    pod["spec"]["tolerations"] = json!(all);
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let mut affinity = child(&pod["spec"], "affinity").clone();
    if !affinity.is_object() {
        affinity = json!({});
    }
    if !affinity["nodeAffinity"].is_object() {
        affinity["nodeAffinity"] = json!({});
    }
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    pod["spec"]["affinity"] = affinity;
    pod
}

/// Returns the hash of a revision, which its Pods have as a label.
pub(super) fn hash_of(revision: &ControllerRevision) -> &str {
    revision
        .metadata
        .labels
        .get(REVISION_LABEL)
        .map_or("", String::as_str)
}
