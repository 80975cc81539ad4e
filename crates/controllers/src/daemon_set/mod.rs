//! DaemonSets: one Pod on each eligible Node.

mod placement;
mod reconcile;
mod rolling;

use api::object::DaemonSet;
use serde_json::Value;

use crate::selection::Controller;
use crate::workload::{Decision, Inputs, Workload};

impl Workload for DaemonSet {
    const CONTROLLER: Controller = Controller::DaemonSet;
    const HAS_REVISIONS: bool = true;
    const READS_NODES: bool = true;

    fn selector(&self) -> &Value {
        &self.spec.selector
    }

    fn reconcile(inputs: &Inputs<'_, Self>) -> Decision {
        reconcile::reconcile(inputs)
    }
}

#[cfg(test)]
mod tests;
