//! Sessions with BIRD in a network of namespaces, with an API server and an assigner.

mod bird;
mod fixture;
mod sessions;
#[path = "../../../balancer/tests/support/mod.rs"]
mod support;
