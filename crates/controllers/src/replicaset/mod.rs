//! ReplicaSets: as many Pods as are wanted, made from the template, and counted.
//!
//! [`reconcile()`] says which step is next, from the ReplicaSet and the Pods that are known; each step is written and
//! taken into the caches before the next one is looked for. As the caches are never older than what was written
//! here, nothing has to be expected; after a failure, when it is open what was done, the server is asked first.

mod keeper;
mod pod;
mod ranking;
pub mod reconcile;
mod run;
mod status;
mod write;

pub use pod::{ContainerState, ReplicaPod, ReplicaPodSpec, ReplicaPodStatus};
pub use reconcile::{Inputs, Outcome, Step, reconcile};
pub use run::run;

pub use crate::owned::Claim;

/// Pods that are created or deleted for a ReplicaSet in one go.
const BURST: usize = 500;
