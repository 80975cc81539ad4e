//! ServiceCIDRs: finalizer and condition Ready. A deleted ServiceCIDR stays as long as a cluster IP would be in no
//! range without it (CIDR-09 to CIDR-11). The API server creates the default ServiceCIDR.

mod controller;
pub(crate) mod reconcile;
mod run;
mod write;

pub(crate) use reconcile::{Inputs, Step};
pub(crate) use run::run;

/// Finalizer of a ServiceCIDR, held while cluster IPs depend on it (CIDR-09).
pub(crate) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Label of IPAddresses in use by Services (FAM-15).
pub(crate) const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`].
pub(crate) const MANAGED_BY: &str = "ipallocator.k8s.io";
