//! EndpointSlices for Services with a selector (FEATURES EPS).

pub mod endpoint;
#[cfg(test)]
pub(crate) mod fixtures;
mod hints;
mod packing;
pub mod reconcile;
pub(crate) mod slice;
pub mod topology;
pub mod trigger;
mod write;
mod writes;

pub use reconcile::{Counts, Inputs, Outcome, SliceWrite, reconcile};
pub(crate) use write::{Report, carry_out};

/// Value of the managed-by label on slices of this controller (EPS-03); upstream's own, so that one
/// takes over the slices of the other.
pub const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// Label that names who manages a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Label on slices of headless Services (API-49).
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Annotation with the time of the change that made a controller write (EPS-04).
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
