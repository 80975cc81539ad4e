//! Controllers: they compare the desired state in the API with the observed state, and write the difference.
//!
//! - [`run()`] starts the selected controllers ([`Selection`]) and drains them at shutdown.
//! - `endpoint_slice`, `endpoints` and `mirroring` are pure functions from cached objects to writes. They share caches
//!   (`caches`) and a driver with a queue for each (`endpoint_controllers`).
//! - All other controllers have private caches. Each is a [`reconcile::Reconciler`] in a module of its name, such as
//!   `deployment`, `scheduler` or [`node_lifecycle`], and runs in [`reconcile::run`]. They share one watch of Pods
//!   ([`PodWatch`]).
//! - [`multicluster`] imports Services of other clusters.
//!
//! # Example
//!
//! Run two controllers against the cluster of a kubeconfig until Ctrl-C:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use client::{Client, Config};
//! use controllers::{Environment, Options, Selection, run};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Config::from_kubeconfig(Path::new("admin.kubeconfig"))?)?;
//! let options = Options {
//!     controllers: Selection::parse(&["endpointslice-controller", "endpoints-controller"])?,
//!     ..Options::default()
//! };
//! let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! run(Environment::new(client), options, interrupted).await;
//! # Ok(())
//! # }
//! ```

mod api_requests;
pub mod backends;
pub(crate) mod caches;
pub mod certificates;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
mod endpoint_controllers;
pub mod endpoint_slice;
pub(crate) mod endpoints;
mod environment;
pub(crate) mod garbage_collector;
mod health_server;
pub(crate) mod job;
mod malformed_object;
mod metrics;
pub(crate) mod mirroring;
pub mod multicluster;
pub mod node_ipam;
pub mod node_lifecycle;
mod options;
mod owned_objects;
mod owner_cache;
mod pod_watch;
pub(crate) mod replica_set;
pub(crate) mod replication_controller;
pub(crate) mod scheduler;
pub mod selection;
pub(crate) mod service_cidr;
mod start;
pub(crate) mod stateful_set;
pub(crate) mod taint_eviction;
pub(crate) mod token_cleaner;
mod topology_mode;
mod workload;

pub use environment::Environment;
pub use health_server::serve_status;
pub use metrics::Metrics;
pub use options::Options;
pub use pod_watch::PodWatch;
pub use selection::{Controller, Selection};
pub use start::run;
