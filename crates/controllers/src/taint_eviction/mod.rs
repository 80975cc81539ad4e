//! Eviction of Pods from Nodes with taints of the effect NoExecute.
//!
//! [`decide::time_remaining()`] computes the time that a Pod may stay. A Pod that does not tolerate a taint is deleted at once,
//! and one with `tolerationSeconds` after that time.

mod cached_pod;
mod controller;
mod decide;
mod pod;
mod run;
mod write;

pub(crate) use run::run;
