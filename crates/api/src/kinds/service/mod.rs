//! Rules of Services: defaults, preparation of updates, selection of IP families, validation and warnings. Nothing
//! here allocates. The Service registry calls, in this order,
//!
//! - on create: [`default_on_write`], the allocation of addresses and ports (which calls
//!   [`normalize_cluster_ips`] and [`initialize_families`] first), [`prepare_create`], [`validate()`],
//!   [`default_on_read`];
//! - on update: [`default_on_write`], the allocation (which calls [`patch_allocated_values`],
//!   [`normalize_cluster_ips`] and [`initialize_families`] first), [`prepare_update`],
//!   [`validate_update`], [`default_on_read`];
//! - on update of the status: [`default_on_write`], [`prepare_status_update`], [`validate_status_update`].
//!
//! Allocation comes before validation (API-14), so its errors come alone.

mod defaults;
mod families;
mod update;
mod validate;
mod view;
mod warnings;

pub use defaults::{default_on_read, default_on_write};
pub use families::{ConfiguredFamilies, initialize_families, keeps_prefer_dual_stack};
pub use update::{
    normalize_cluster_ips, patch_allocated_values, prepare_create, prepare_status_update, prepare_update,
};
pub use validate::{validate, validate_status_update, validate_update};
pub use view::View;
pub use warnings::{status_warnings, warnings};

/// Value of `clusterIP` of a headless Service.
pub const HEADLESS: &str = "None";

/// Default timeout of the session affinity (DEF-02).
pub const AFFINITY_TIMEOUT_SECONDS_DEFAULT: u32 = 10_800;

/// Annotation for source ranges, comma separated, older than `loadBalancerSourceRanges` (API-47).
pub const SOURCE_RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Annotation that enables zone hints (API-45).
pub const TOPOLOGY_MODE_ANNOTATION: &str = "service.kubernetes.io/topology-mode";
/// Older name of [`TOPOLOGY_MODE_ANNOTATION`] (API-46).
pub const TOPOLOGY_HINTS_ANNOTATION: &str = "service.kubernetes.io/topology-aware-hints";

#[cfg(test)]
mod tests;
