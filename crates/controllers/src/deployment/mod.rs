//! Deployments: a ReplicaSet for each template that they ever had, and as many Pods of the newest as are wanted.
//!
//! [`reconcile()`] says which step is next, from the Deployment and its ReplicaSets; each step is written and taken
//! into the caches before the next one is looked for. What decides how far a rolling update may go counts
//! cautiously: a ReplicaSet has the Pods that it is to have or says that it has, whichever is more, and of those
//! that are available no more than it is to have, and none while its controller has not seen that. So whatever the ReplicaSets' own controller has done meanwhile, there
//! are never more Pods than wanted and `maxSurge`, and never fewer available ones because of a roll-out.

mod bounds;
mod keeper;
mod naming;
pub mod reconcile;
mod revisions;
mod rolling;
mod run;
mod scaling;
mod status;
mod write;

pub use bounds::Bounds;
pub use naming::template_hash;
pub use reconcile::{Inputs, Outcome, Step, reconcile};
pub use run::run;

pub use crate::owned::Claim;

/// The label that tells the Pods of one template from those of another.
pub const HASH_LABEL: &str = "pod-template-hash";
/// The annotation with the number of a template, counted up.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with the numbers that a template had earlier.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The annotation of a ReplicaSet with the replicas of its Deployment.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation of a ReplicaSet with the most Pods that its Deployment may have.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// A limit or deadline that stands for none.
const UNLIMITED: i64 = i32::MAX as i64;
