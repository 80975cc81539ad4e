//! Announcements on a network of namespaces, observed by a client on it.

mod asker;
mod connections;
mod flood;
mod forged;
mod moves;
mod one_owner;
mod pools;
mod setting;
#[path = "../../../balancer/tests/support/mod.rs"]
mod support;
