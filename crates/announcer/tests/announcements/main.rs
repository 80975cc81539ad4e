//! Announcing on a network of namespaces, seen from a client on it: who answers for an address, on the wire.

mod asker;
mod flood;
mod forged;
mod moves;
mod one_owner;
mod pools;
mod setting;
#[path = "../../../balancer/tests/support/mod.rs"]
mod support;
mod talks;
