//! Dataplanes: each writes the plan into the kernel in its own language, by differences.

use plan::{Changes, Plan};

/// A way to put a plan into force on this node.
///
/// An implementation is always in a state that some plan describes: a change is one transaction.
pub trait Dataplane {
    /// Brings the changed Services of `plan` into force. After an error nothing of this call is in
    /// force, or the error names the Services that were skipped; the caller may retry.
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError>;

    /// Reads back what is in force and mends what differs from `plan`; returns how many elements
    /// differed (drift).
    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError>;
}
