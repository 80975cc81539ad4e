//! The controllers: from what is there to what should be there, written back to the API.
//!
//! One loop ([`run()`]) owns the caches ([`world`]) and turns watch events into keys to look at. What a key needs
//! is computed by pure functions ([`endpointslice::reconcile()`], [`endpoints::reconcile()`],
//! [`mirroring::reconcile()`], [`placement`]); the writes are made by tasks, one per key at a time, so that a
//! slow answer holds up nobody else. Beside it runs the collector of what nobody owns any more ([`garbage`]).

pub mod endpoints;
pub mod endpointslice;
pub mod events;
pub mod garbage;
pub mod mirroring;
pub mod node_lifecycle;
pub mod placement;
pub mod queue;
pub mod run;
pub mod selection;
pub mod service_cidr;
pub mod world;
mod write;

pub use run::{Environment, Options, run};
pub use selection::{Controller, Selection};
