//! CustomResourceDefinitions: of AddressPools, for API servers without the built-in kind, and of status objects of MetalLB.

/// Manifest, as printed by `portolan balancer crd`.
pub const MANIFEST: &str = include_str!("crd.yaml");

/// Documents of the status objects of MetalLB that a speaker writes (LBM-16), as printed by `portolan balancer crd
/// --metallb-status`.
pub const METALLB_STATUS_MANIFEST: &str = include_str!("crd/metallb_status.yaml");

#[cfg(test)]
mod tests;
