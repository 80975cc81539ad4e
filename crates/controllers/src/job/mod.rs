//! Jobs: Pods that run to completion. Finished Pods keep a finalizer until the status counts them, so that a Pod that is
//! deleted early counts too.

mod conditions;
mod finished_pods;
mod pod_failure_policy;
mod pods;
mod reconcile;
mod success_policy;

use api::object::Job;
use serde_json::Value;

use crate::selection::Controller;
use crate::workload::{Decision, Inputs, Workload};

/// Finalizer of Pods that the status does not count yet.
pub(crate) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

impl Workload for Job {
    const CONTROLLER: Controller = Controller::Job;
    const TRACKS_PODS: bool = true;

    fn selector(&self) -> &Value {
        &self.spec.selector
    }

    fn reconcile(inputs: &Inputs<'_, Self>) -> Decision {
        reconcile::reconcile(inputs)
    }
}

#[cfg(test)]
mod tests;
