//! What of a Pod decides about its Node.

use api::object::{Condition, Labels, ObjectMeta, Taint, is_final_phase};
use serde::Deserialize;

use super::resources::Resources;

/// A Pod, as far as the scheduler reads it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SchedulePod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: SchedulePodSpec,
    /// What is.
    pub status: SchedulePodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulePodSpec {
    /// The Node it is on, or "".
    pub node_name: String,
    /// Who is to find it a Node.
    pub scheduler_name: String,
    /// Labels that the Node must have.
    pub node_selector: Labels,
    /// Taints that it puts up with.
    pub tolerations: Vec<Toleration>,
    /// Containers.
    pub containers: Vec<ScheduleContainer>,
    /// Init containers.
    pub init_containers: Vec<ScheduleContainer>,
    /// What it needs beyond its containers.
    pub overhead: Labels,
    /// Names of what has to happen before it gets a Node.
    pub scheduling_gates: Vec<serde_json::Value>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduleContainer {
    /// What it needs.
    pub resources: ScheduleResources,
    /// Its ports.
    pub ports: Vec<SchedulePort>,
    /// `Always` for an init container that runs beside the others.
    pub restart_policy: String,
}

/// `resources` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ScheduleResources {
    /// Amounts that are kept for it.
    pub requests: Labels,
    /// The most that it may use.
    pub limits: Labels,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulePort {
    /// The port of the Node that leads to it, or 0.
    pub host_port: u16,
    /// The Node's address that it is at, or "" for all.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint's key; "" for all, if the operator is Exists.
    pub key: String,
    /// Equal, which is the default, or Exists.
    pub operator: String,
    /// The taint's value.
    pub value: String,
    /// The taint's effect; "" for all.
    pub effect: String,
    /// How long a taint of the effect NoExecute is put up with; for ever if it is absent.
    pub toleration_seconds: Option<i64>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SchedulePodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

api::resource!(SchedulePod, "", "v1", "Pod", "pods");

impl SchedulePod {
    /// Whether it has ended for good.
    pub fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Whether it waits for a Node.
    pub fn waits(&self) -> bool {
        self.spec.node_name.is_empty()
            && !self.is_finished()
            && self.metadata.deletion_timestamp.is_none()
            && self.spec.scheduling_gates.is_empty()
    }

    /// Whether it says already that no Node takes it, and why.
    pub fn says_unschedulable(&self, why: &str) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| c.kind == "PodScheduled" && c.status == "False" && c.message == why)
    }

    /// Whether it takes room on its Node.
    pub fn occupies(&self) -> bool {
        !self.spec.node_name.is_empty() && !self.is_finished()
    }

    /// What is kept for it: what its containers need together, or the most that starting takes, if that is more.
    pub fn requests(&self) -> Resources {
        let together: Resources = self.spec.containers.iter().map(ScheduleContainer::needs).sum();
        let mut beside = Resources::default();
        let mut starting = Resources::default();
        for container in &self.spec.init_containers {
            if container.restart_policy == "Always" {
                beside = beside + container.needs();
                starting = starting.max(beside);
            } else {
                starting = starting.max(beside + container.needs());
            }
        }
        (together + beside).max(starting) + Resources::of(&self.spec.overhead)
    }

    /// Ports of the Node that it takes: address, protocol and number.
    pub fn host_ports(&self) -> impl Iterator<Item = &SchedulePort> {
        let ports = self.spec.containers.iter().flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port != 0)
    }

    /// Whether it puts up with a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.spec
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(taint))
    }

    /// Those that are spread over Nodes together with it: of the same owner, or without one of the same labels.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self.metadata.controller(), other.metadata.controller()) {
            (Some(a), Some(b)) => a.uid == b.uid,
            (None, None) => !self.metadata.labels.is_empty() && self.metadata.labels == other.metadata.labels,
            _ => false,
        }
    }
}

impl ScheduleContainer {
    /// What is kept for it; what it may use at most is kept where nothing else is said.
    fn needs(&self) -> Resources {
        let ScheduleResources { requests, limits } = &self.resources;
        Resources::read(|name| requests.get(name).or_else(|| limits.get(name)))
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let is_effect = self.effect.is_empty() || self.effect == taint.effect;
        let is_key = self.key.is_empty() || self.key == taint.key;
        is_effect
            && match &*self.operator {
                "Exists" => is_key,
                _ => !self.key.is_empty() && is_key && self.value == taint.value,
            }
    }
}
