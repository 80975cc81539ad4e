//! ReplicaSets: the desired number of Pods from a template, and their counts.
//!
//! [`reconcile::reconcile()`] computes the next step from a ReplicaSet and its cached Pods. Each step is written and
//! applied to the caches before the next one is computed. The caches are never older than this controller's
//! own writes, so it needs no expectations. After a failure, whose effect is unknown, the Pods are read
//! first.

mod controller;
mod pod;
pub(crate) mod ranking;
pub(crate) mod reconcile;
mod run;
mod status;
mod write;

pub(crate) use pod::ReplicaPod;
pub(crate) use run::run;
pub(crate) use write::delete_pod;

/// Upper bound of Pods that one job creates or deletes.
const BURST: usize = 500;
