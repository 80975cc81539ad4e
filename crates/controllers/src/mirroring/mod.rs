//! EndpointSlices that mirror Endpoints which somebody other than a controller writes (FEATURES EPM):
//! consumers read slices only.

pub mod reconcile;

pub use reconcile::{Counts, Inputs, Outcome, reconcile};

/// Value of the managed-by label on mirrored slices (EPM-03); upstream's own, so that one takes over the
/// slices of the other.
pub const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// Label on Endpoints that are not to be mirrored, if it is "true" (EPM-02).
pub const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
