//! The controllers as a process beside an API server, driven through the API.

#[path = "../support/mod.rs"]
mod support;

mod deployments;
mod driver;
mod election;
mod garbage;
mod nodes;
mod service_cidrs;
