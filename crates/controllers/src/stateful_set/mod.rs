//! StatefulSets: Pods with stable names, created, deleted and replaced in the order of their numbers.

mod pods;
mod reconcile;
mod status;

use api::object::StatefulSet;
use serde_json::Value;

use crate::selection::Controller;
use crate::workload::{Decision, Inputs, Workload};

impl Workload for StatefulSet {
    const CONTROLLER: Controller = Controller::StatefulSet;
    const HAS_REVISIONS: bool = true;

    fn selector(&self) -> &Value {
        &self.spec.selector
    }

    fn reconcile(inputs: &Inputs<'_, Self>) -> Decision {
        reconcile::reconcile(inputs)
    }

    fn message(&self, verb: &str, pod: &str) -> String {
        format!(
            "{verb} Pod {pod} in StatefulSet {} successful",
            self.metadata.name
        )
    }
}

#[cfg(test)]
mod tests;
