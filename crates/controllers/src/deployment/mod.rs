//! Deployments: one ReplicaSet for each template, and the desired number of Pods of the newest.
//!
//! [`reconcile::reconcile()`] computes the next step from a Deployment and its ReplicaSets. Each step is written and
//! applied to the caches before the next one is computed.
//!
//! The bounds of a rolling update are computed conservatively. A ReplicaSet counts with the larger of its desired and
//! its reported Pods. Its available Pods count up to its desired Pods, and do not count while its controller has not
//! observed its spec. The total of Pods that do not terminate therefore does not exceed the desired Pods and
//! `maxSurge`. A rollout does not reduce availability below its bound. Both hold independently of the progress of the
//! ReplicaSet controller.

mod bounds;
mod controller;
pub(crate) mod naming;
pub(crate) mod reconcile;
mod revisions;
mod rolling;
mod rollout;
mod run;
mod scaling;
mod status;
mod write;

pub(crate) use bounds::Bounds;
pub(crate) use run::run;

/// Label that separates the Pods of different templates.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";
/// Annotation with the revision of a template.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a template.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation of a ReplicaSet with the replicas of its Deployment.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a ReplicaSet with the upper bound of its Deployment's Pods.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Value of a limit or deadline that means unlimited.
const UNLIMITED: i64 = i32::MAX as i64;
