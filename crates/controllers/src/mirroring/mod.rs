//! EndpointSlices that mirror Endpoints without a controller (EPM), for consumers that read slices only.

pub mod reconcile;

pub use reconcile::{Counts, Inputs, reconcile};

/// Value of the managed-by label on mirrored slices (EPM-03). It is upstream's, so that each can take over
/// the slices of the other.
pub const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// Label that disables the mirroring of Endpoints if its value is "true" (EPM-02).
pub const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
