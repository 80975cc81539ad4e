//! The agent: runs the Pods of one node as processes in network namespaces of their own, so that Services have
//! something to serve where there is no Kubernetes.
//!
//! [`run`] watches the Pods whose `nodeName` is this node and keeps a [`worker`] for each. A worker gives its Pod
//! addresses and a veth pair ([`network`]), a sandbox ([`sandbox`], reached by [`runtime`]), starts containers in it
//! as [`containers`] decides, and tells the API ([`status`]). What would be an image is a line in a table
//! ([`images`]). Pods outlive the agent; the next one takes them over ([`state_directory`]).
//!
//! The binary must call [`internal_command`] before anything else: sandboxes and the echo server are this same
//! program under hidden subcommands.

mod agent;
mod capabilities;
pub mod cgroups;
mod confinement;
pub mod containers;
pub mod echo;
pub mod environment;
pub mod events;
pub mod images;
pub mod logs;
pub mod manifests;
mod mirror;
mod mount_attributes;
pub mod network;
mod node;
pub mod object;
pub mod quantity;
mod registration;
mod reporter;
pub mod resolv_conf;
mod rfc3339;
pub mod runtime;
pub mod sandbox;
pub mod seccomp;
mod services;
pub mod serving;
pub mod settings;
pub mod state_directory;
mod static_pods;
pub mod status;
pub mod user_namespaces;
pub mod volumes;
pub mod worker;

use std::process::ExitCode;

pub use agent::{AgentError, run};
pub use settings::{AtEnd, NodeTaint, PODS_MAX_DEFAULT, Settings, StaticPods};

/// Runs a hidden subcommand, if `arguments` (without the program's name) begin with one. To be called first of all:
/// a sandbox must not have threads before it leaves the agent's namespaces.
pub fn internal_command(arguments: &[String]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let settings = rest.first().map(String::as_str).unwrap_or_default();
    match name.as_str() {
        sandbox::SUBCOMMAND => Some(sandbox::run(settings)),
        user_namespaces::SUBCOMMAND => Some(user_namespaces::hold()),
        sandbox::INIT_SUBCOMMAND => Some(sandbox::run_init(settings)),
        sandbox::CONTAINER_SUBCOMMAND => Some(sandbox::run_container()),
        echo::SUBCOMMAND => Some(match echo::Settings::parse(rest) {
            Ok(settings) => echo::run(settings),
            Err(message) => {
                eprintln!("echo: {message}");
                ExitCode::from(2)
            }
        }),
        _ => None,
    }
}
