//! Multi-cluster Services (KEP-1645): the Services that the clusters of a set export, imported into this cluster.
//!
//! Each cluster runs this controller and reads the others (`portolan:clusterset-reader`). It writes to its own cluster
//! only. All clusters with the same ServiceExports make the same decision, because conflicts depend on the ages of the
//! ServiceExports.
//!
//! An import consists of a ServiceImport and of EndpointSlices with the endpoints of each cluster. Unless it is
//! headless, it also has a derived Service without selector. The API server allocates the clusterset IP as the
//! cluster IP of the derived Service. Every proxy forwards it like the IP of any Service.
//!
//! The core is pure: `resolution` merges exports, `desired` decides about an import, and `step` returns the next write from
//! the desired and the observed state.

mod caches;
mod cluster_id;
mod conditions;
mod controller;
mod desired;
mod names;
mod observed;
mod resolution;
mod run;
mod settings;
mod slices;
mod step;
#[cfg(test)]
mod tests;
mod write;

pub use cluster_id::{ClusterId, InvalidClusterId};
pub(crate) use run::run;
pub use settings::{OTHER_CLUSTERS_MAX, OtherCluster, Settings, UNREACHABLE_AFTER};
