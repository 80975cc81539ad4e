//! ServiceCIDRs: each holds a finalizer and says that it is ready; one that is deleted stays until no cluster
//! IP would be left without a range (FEATURES CIDR-09 to CIDR-11). The default one is made by the API server.

mod cidrs;
pub mod reconcile;
mod run;
mod write;

pub use reconcile::{Inputs, Outcome, Step, reconcile};
pub use run::run;

/// The finalizer that holds a ServiceCIDR while cluster IPs depend on it (CIDR-09).
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Label of the IPAddresses that Services hold (FAM-15).
pub const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
/// Value of that label.
pub const MANAGED_BY: &str = "ipallocator.k8s.io";
