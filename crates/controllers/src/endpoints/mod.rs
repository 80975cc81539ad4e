//! Endpoints of Services with a selector (EPC), for clients that do not read EndpointSlices.

mod capacity;
pub(crate) mod reconcile;
pub(crate) mod repack;
mod write;

pub(crate) use reconcile::{EndpointsWrite, Inputs, reconcile};
pub(crate) use write::{WriteResult, execute};

/// Label with the manager of Endpoints (EPC-09).
pub(crate) const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
/// Value of the managed-by label on Endpoints of this controller; upstream's.
pub(crate) const MANAGED_BY: &str = "endpoint-controller";
/// Annotation on truncated Endpoints (EPC-11).
pub(crate) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Annotation on Endpoints that serve leader election instead of a Service (EPC-13, EPM-02).
pub(crate) const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
