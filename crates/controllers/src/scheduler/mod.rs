//! A small scheduler for clusters without kube-scheduler.
//!
//! [`filter`] selects the Nodes that can run a Pod, and [`score`] the best of them: the one with the fewest
//! Pods of the same owner, then the least loaded. The condition PodScheduled of a Pod that fits on no Node
//! has the reasons. It is scheduled again when Nodes or Pods change. The scheduler does not preempt Pods.

mod controller;
pub mod filter;
mod pod;
mod resources;
mod run;
mod score;
mod write;

pub use run::run;

/// Name of this scheduler; the API server's default for `spec.schedulerName`.
const SCHEDULER_NAME: &str = "default-scheduler";
