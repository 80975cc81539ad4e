//! The fields of a Pod that the scheduler reads.

use api::object::{Condition, Labels, ObjectMeta, Taint, is_final_phase};
use api::pod::RequestedHostPort;
use serde::{Deserialize, Deserializer};

use super::affinity::{Affinity, SpreadConstraint};
use super::bounded_terms::BoundedTerms;
use super::resources::Resources;

/// A view of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulePod {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: SchedulePodSpec,
    /// Observed state.
    pub status: SchedulePodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SchedulePodSpec {
    /// Name of the Node; empty if the Pod is pending.
    pub node_name: String,
    /// Name of the responsible scheduler.
    pub scheduler_name: String,
    /// Labels that the Node must have.
    pub node_selector: Labels,
    /// Tolerations of taints.
    pub tolerations: Vec<Toleration>,
    /// Containers, without init containers.
    pub containers: Vec<ScheduleContainer>,
    /// Init containers.
    pub init_containers: Vec<ScheduleContainer>,
    /// Resources beyond those of the containers.
    #[serde(deserialize_with = "resources")]
    pub overhead: Resources,
    /// Affinity to Nodes and Pods.
    pub affinity: Affinity,
    /// Topology spread constraints.
    pub topology_spread_constraints: BoundedTerms<SpreadConstraint>,
    /// Scheduling gates; a Pod with any is not scheduled.
    pub scheduling_gates: Vec<serde_json::Value>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScheduleContainer {
    /// Requests; limits are the default of requests.
    #[serde(rename = "resources", deserialize_with = "requests")]
    pub requests: Resources,
    /// Ports; host ports restrict the choice of the Node.
    pub ports: Vec<SchedulePort>,
    /// `Always` for a sidecar, an init container that keeps running.
    pub restart_policy: String,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SchedulePort {
    /// Port of the Node; 0 if none.
    pub host_port: u16,
    /// Address of the Node; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Toleration {
    /// Key of the taint; empty for all with operator Exists.
    pub key: String,
    /// Equal (the default) or Exists.
    pub operator: String,
    /// Value of the taint.
    pub value: String,
    /// Effect of the taint; empty for all.
    pub effect: String,
    /// Time until a NoExecute taint evicts the Pod; unlimited if absent.
    pub toleration_seconds: Option<i64>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulePodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Conditions, at most one per type.
    pub conditions: Vec<Condition>,
}

api::resource!(SchedulePod, "", "v1", "Pod", "pods");

impl SchedulePod {
    /// Returns true if the Pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Returns true if the Pod can be scheduled.
    pub(crate) fn is_pending(&self) -> bool {
        self.spec.node_name.is_empty()
            && !self.is_finished()
            && self.metadata.deletion_timestamp.is_none()
            && self.spec.scheduling_gates.is_empty()
    }

    /// Returns true if the condition PodScheduled is False with this message.
    pub(crate) fn is_marked_unschedulable(&self, reason: &str) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| {
            condition.kind == "PodScheduled" && condition.status == "False" && condition.message == reason
        })
    }

    /// Returns the effective requests: the sum of containers and sidecars, or the maximum during
    /// initialization if that is larger.
    pub(crate) fn requests(&self) -> Resources {
        let app_containers: Resources = self
            .spec
            .containers
            .iter()
            .map(|container| container.requests)
            .sum();
        let mut sidecars = Resources::default();
        let mut starting = Resources::default();
        for container in &self.spec.init_containers {
            if container.restart_policy == "Always" {
                sidecars = sidecars + container.requests;
                starting = starting.max(sidecars);
            } else {
                starting = starting.max(sidecars + container.requests);
            }
        }
        (app_containers + sidecars).max(starting) + self.spec.overhead
    }

    /// Iterates over the host ports of containers and sidecars.
    pub(crate) fn host_ports(&self) -> impl Iterator<Item = RequestedHostPort<'_>> {
        self.ports_with_host_port().map(SchedulePort::as_requested)
    }

    /// Iterates over the ports of containers and sidecars with a host port.
    pub(super) fn ports_with_host_port(&self) -> impl Iterator<Item = &SchedulePort> {
        let init = self.spec.init_containers.iter();
        let sidecars = init.filter(|container| container.restart_policy == "Always");
        let containers = self.spec.containers.iter().chain(sidecars);
        let ports = containers.flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port != 0)
    }

    /// Returns true if the Pod tolerates a taint.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.spec
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(taint))
    }

    /// Returns true if the feasible Nodes of the Pod depend on other Pods.
    pub(crate) fn depends_on_pods(&self) -> bool {
        let Affinity {
            pod_affinity,
            pod_anti_affinity,
            ..
        } = &self.spec.affinity;
        !pod_affinity.required.is_empty()
            || !pod_anti_affinity.required.is_empty()
            || !self.spec.topology_spread_constraints.is_empty()
    }
}

impl SchedulePort {
    /// Returns the port as a request for a port of a Node.
    pub(super) fn as_requested(&self) -> RequestedHostPort<'_> {
        RequestedHostPort {
            host_ip: &self.host_ip,
            protocol: &self.protocol,
            port: self.host_port,
        }
    }
}

/// Reads resources by name.
fn resources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resources, D::Error> {
    Labels::deserialize(deserializer).map(|amounts| Resources::of(&amounts))
}

/// Reads the requests from `resources` of a container. Quantities are parsed here, once, because each Pod to schedule
/// is compared with the requests of all others.
fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resources, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Amounts {
        requests: Labels,
        limits: Labels,
    }
    let Amounts { requests, limits } = Amounts::deserialize(deserializer)?;
    Ok(Resources::read(|name| {
        requests.get(name).or_else(|| limits.get(name))
    }))
}

impl Toleration {
    /// Returns true if the toleration is about the taint.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        let is_effect = self.effect.is_empty() || self.effect == taint.effect;
        let is_key = self.key.is_empty() || self.key == taint.key;
        is_effect
            && match &*self.operator {
                "Exists" => is_key,
                _ => !self.key.is_empty() && is_key && self.value == taint.value,
            }
    }
}
