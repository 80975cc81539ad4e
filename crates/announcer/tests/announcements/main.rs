//! Announcements on a network of namespaces, observed by a client on it.

mod arp_observer;
mod connections;
mod egress;
mod fixture;
mod flood;
mod forged;
mod moves;
mod one_owner;
mod pools;
#[path = "../../../balancer/tests/support/mod.rs"]
mod support;
