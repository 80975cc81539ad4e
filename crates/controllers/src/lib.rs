//! The controllers: from what is there to what should be there, written back to the API.
//!
//! One loop ([`run()`]) owns the caches ([`world`]) and turns watch events into keys to look at. What a key needs
//! is computed by pure functions ([`endpointslice::reconcile()`], [`endpoints::reconcile()`],
//! [`mirroring::reconcile()`]); the writes are made by tasks, one per key at a time, so that a
//! slow answer holds up nobody else. Beside it run those that share no caches with the others, each in a loop of the
//! same frame ([`keeper`]): [`deployment`], [`replicaset`], [`scheduler`], [`garbage`], [`service_cidr`],
//! [`node_lifecycle`], [`node_ipam`], [`certificates`], [`token_cleaner`] and [`backends`].

pub mod backends;
pub mod certificates;
pub mod deployment;
pub mod endpoints;
pub mod endpointslice;
pub mod events;
pub mod garbage;
mod keeper;
mod malformed;
mod metrics;
pub mod mirroring;
pub mod node_ipam;
pub mod node_lifecycle;
mod owned;
mod owners;
pub mod queue;
pub mod replicaset;
pub mod run;
pub mod scheduler;
pub mod selection;
pub mod service_cidr;
mod status;
pub mod token_cleaner;
pub mod world;
mod write;

pub use metrics::Metrics;
pub use run::{Environment, Options, run};
pub use selection::{Controller, Selection};
pub use status::serve_status;
