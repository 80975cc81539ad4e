//! The controllers and the API server as processes, driven by API requests.

#[path = "../support/mod.rs"]
mod support;

mod deployments;
mod driver;
mod election;
mod garbage;
mod nodes;
mod service_cidrs;
mod workloads;
