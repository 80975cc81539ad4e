//! EndpointSlices that mirror Endpoints without a controller (EPM), for consumers that read slices only.

pub(crate) mod reconcile;

pub(crate) use reconcile::{Counts, Inputs, reconcile};

/// Value of the managed-by label on mirrored slices (EPM-03). The value is upstream's, so either controller can take
/// over the slices of the other.
pub(crate) const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// Label that disables the mirroring of Endpoints if its value is "true" (EPM-02).
pub(crate) const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
