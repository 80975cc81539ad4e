//! A Node for every Pod that has none: a small scheduler, for clusters without another one.
//!
//! [`filter`] says which Nodes can take a Pod, and why the others cannot; [`score`] which of them is best: the one with
//! the fewest Pods of the same owner, then the one with the most left. A Pod that no Node takes says so in its
//! condition PodScheduled, and is looked at again when Nodes or Pods change. Nobody is evicted for it.

pub mod filter;
mod keeper;
mod pod;
mod resources;
mod run;
mod score;
mod write;

pub use filter::{Occupied, Refusal, refusals};
pub use pod::{SchedulePod, Toleration};
pub use resources::Resources;
pub use run::run;
pub use score::choose;

/// The name by which Pods ask for this scheduler, which is what the server fills in.
const SCHEDULER_NAME: &str = "default-scheduler";
