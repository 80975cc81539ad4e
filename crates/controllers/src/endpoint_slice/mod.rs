//! EndpointSlices of Services with a selector (EPS).

pub mod endpoint;
mod hints;
mod inputs;
mod packing;
pub mod reconcile;
pub(crate) mod slice;
mod slice_changes;
mod slice_reuse;
#[cfg(test)]
pub(crate) mod tests;
pub mod topology;
pub mod trigger;
mod write;

pub use inputs::Inputs;
pub use reconcile::reconcile;
pub use slice_changes::{Counts, SliceChanges, SliceWrite};
pub(crate) use write::{Report, execute};

/// Value of the managed-by label on slices of this controller (EPS-03). The value is upstream's, so either controller
/// can take over the slices of the other.
pub const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// Label with the manager of a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Label on slices of headless Services (API-49).
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Annotation with the time of the change that caused a write (EPS-04).
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
