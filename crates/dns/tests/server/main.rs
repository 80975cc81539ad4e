//! The DNS server over the network, and its responses to recorded queries. One binary holds the tests, so that it is
//! linked once.

mod client_access;
mod conformance;
mod connections;
mod feed;
mod forward;
mod query_identifiers;
mod resolvers;
mod restart;
mod rolling_update;
mod server;
#[path = "../support/mod.rs"]
mod support;
