//! Endpoints for Services with a selector (FEATURES EPC), for clients that do not read EndpointSlices.

mod capacity;
pub mod reconcile;
pub mod repack;
mod write;

pub use reconcile::{EndpointsWrite, Inputs, reconcile};
pub(crate) use write::{Written, carry_out};

/// Label that names who manages Endpoints (EPC-09).
pub const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
/// Value of the managed-by label on Endpoints of this controller; upstream's own.
pub const MANAGED_BY: &str = "endpoint-controller";
/// Annotation on Endpoints that leave addresses out (EPC-11).
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Annotation on Endpoints that serve leader election, and no Service (EPC-13, EPM-02).
pub const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
