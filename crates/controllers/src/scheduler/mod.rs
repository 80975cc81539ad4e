//! A small scheduler for clusters without kube-scheduler.
//!
//! [`filter`] selects the Nodes that can run a Pod. [`score`] selects the best one: with the fewest PreferNoSchedule
//! taints that the Pod does not tolerate, then with the fewest Pods of the same owner, then with the least load. The
//! condition PodScheduled of a Pod that fits on no Node has the reasons. `constraints` evaluates affinity, anti-affinity and topology spread over all Nodes. A Pod is scheduled again when
//! Nodes or Pods change, after a delay that grows with the number of attempts (`retry`). The scheduler does not preempt
//! Pods.

mod affinity;
mod bounded_terms;
mod cached_pod;
mod constraints;
mod controller;
pub(crate) mod filter;
mod node_affinity;
pub(crate) mod pod;
mod resources;
mod retry;
mod run;
mod score;
mod selected_pods;
mod write;

pub(crate) use node_affinity::matches_node_affinity;
pub(crate) use pod::{SchedulePod, SchedulePodSpec, Toleration};
pub(crate) use run::run;

/// Name of this scheduler; the API server's default for `spec.schedulerName`.
const SCHEDULER_NAME: &str = "default-scheduler";
