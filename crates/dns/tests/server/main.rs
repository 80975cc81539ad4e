//! The DNS server over the network, and its responses to recorded queries. One binary holds the tests, so that it is
//! linked once.

mod allowed;
mod conformance;
mod connections;
mod feed;
mod forward;
mod resolvers;
mod restart;
mod rolling;
mod server;
mod spelling;
#[path = "../support/mod.rs"]
mod support;
