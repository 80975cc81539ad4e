//! The process on every node: it watches Services, EndpointSlices, its own Node and the Service CIDRs,
//! keeps the [`plan::Plan`] and puts it into force through a [`dataplane::Dataplane`].
//!
//! - `config`: what the flags say
//! - `sources`: the watches, each in a task, all into one bounded queue of [`worker::Update`]s
//! - `worker`: one thread that owns plan and dataplane: takes what is queued, applies it at once, retries
//! - `care`: which conntrack entries of UDP and SCTP are stale after that
//! - `drain`: which TCP connections end because their endpoint has left; `faults`: what is wrong with Services
//! - `node`: what matters of the Node object, and this machine's addresses
//! - `localhost`: TCP node ports on 127.0.0.1, relayed by this process
//! - `sysctl`: what the kernel is set to at the start; `leftovers`: what kube-proxy left, taken away
//! - `health`, `metrics`: the servers that kube-proxy has, with its ports, paths and names
//!
//! The rules stay in force when the process ends; the next one takes them over.

mod care;
mod config;
pub mod configuration;
mod conntrack;
mod drain;
mod events;
mod faults;
mod health;
mod leftovers;
mod localhost;
mod metrics;
mod node;
mod pages;
mod run;
mod sources;
mod sysctl;
mod traffic;
mod worker;

pub use config::{Config, NodePortSelection, NodePortSelectionError, PodSelection};
pub use leftovers::remove_leftovers;
pub use pages::Pages;
pub use run::{ProxyError, run, run_reloading};
pub use sysctl::{ConntrackSettings, set_up_machine};
