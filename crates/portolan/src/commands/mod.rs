//! One module per subcommand: its flags, and the assembly of the crates that it runs.

pub mod agent;
pub mod apiserver;
pub mod backend;
pub mod balancer;
pub mod chart;
pub mod completions;
pub mod controllers;
pub mod dns;
pub mod doctor;
pub mod env;
pub mod explain;
pub mod join;
pub mod kubeconfig;
pub mod leave;
pub mod man;
pub mod manifests;
pub mod plan;
pub mod playground;
pub mod proxy;
pub mod service;
pub mod status;
pub mod store;
pub mod token;
pub mod trace;
pub mod up;
pub mod version;
