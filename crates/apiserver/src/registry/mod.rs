//! Rules of kinds and of stored values: Services with their allocations, Namespaces, Events, admission
//! plugins, encryption at rest.

pub(crate) mod admission;
pub(crate) mod encryption;
pub(crate) mod event;
pub(crate) mod event_expiry;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod repair_loop;
pub mod service;
