//! Prerequisites of a cluster: certificates, kubeconfig files, and the objects that every cluster has.

pub(crate) mod api_servers;
pub(crate) mod cluster_objects;
mod embedded_tables;
pub mod kubeconfig;
pub mod pki;

pub use embedded_tables::load_embedded_tables;
