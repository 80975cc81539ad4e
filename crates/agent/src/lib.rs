//! Agent for Pods on hosts without Kubernetes. It runs the Pods of one node as processes in their own namespaces, so
//! that Services have backends without a kubelet.
//!
//! Modules have the names of the kubelet's parts, if the kubelet has the part.
//!
//! - `agent`: [`run`] registers the Node and starts the sync loop with the [`settings`].
//! - [`pods`]: the sync loop, the worker and the status of each Pod, and the records by which the next agent adopts it.
//! - [`static_pods`]: Pods from manifests of the node, and their mirror Pods in the API.
//! - [`object`]: the Pod API as the agent reads it.
//! - [`containers`]: order of starts and restarts of the containers of a Pod, their environment and their logs.
//! - [`echo`]: the built-in image `portolan.dev/echo`, an echo server.
//! - [`images`]: images that are programs of the node, and pulls of other images into the store of the node.
//! - [`sandbox`]: the process that holds the namespaces of a Pod and starts its containers.
//! - [`runtime`]: client of the sandboxes in the agent.
//! - [`confinement`]: user, capabilities, seccomp filters, sysctls and user namespaces of containers.
//! - [`resources`]: limits by control groups, disk usage, and the usage of CPU and memory.
//! - [`volumes`]: volumes as directories of the node.
//! - [`network`]: addresses, links, host ports, `resolv.conf` and `hosts` of Pods.
//! - `node`: registration, status and heartbeats of the Node.
//! - [`server`]: endpoint for the API server, with logs, streams to containers, and reports about the node.
//!
//! The binary must call [`internal_command`] first: sandboxes and the echo server are hidden subcommands of it.
//!
//! # Example
//!
//! A manifest of a static Pod becomes a Pod that is bound to the node:
//!
//! ```
//! use std::path::Path;
//!
//! use agent::static_pods::manifests::parse;
//!
//! let manifest = b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"web\"},
//!     \"spec\": {\"containers\": [{\"name\": \"web\", \"image\": \"portolan.dev/echo\"}]}}";
//! let pods = parse(manifest, Path::new("web.json"), "node-1").expect("a valid manifest");
//! assert_eq!(pods[0].key().to_string(), "default/web-node-1");
//! ```

mod agent;
pub mod confinement;
pub mod containers;
pub mod echo;
pub mod images;
pub mod network;
mod node;
pub mod object;
pub mod pods;
pub mod resources;
pub mod runtime;
pub mod sandbox;
pub mod server;
pub mod settings;
pub mod static_pods;
pub mod volumes;

use std::process::ExitCode;

use crate::confinement::user_namespaces;

pub use crate::images::images_in_use::release_images;
pub use agent::{AgentError, check_capabilities, run};
pub use pods::pod_removal::{RemovedPods, remove_pods};
pub use settings::{NodeTaint, PODS_MAX_DEFAULT, Settings, ShutdownPolicy, StaticPods};

/// Runs a hidden subcommand if the arguments, without the name of the program, begin with one. Call this first in
/// `main`, because a sandbox must have only one thread when it leaves the agent's namespaces.
pub fn internal_command(arguments: &[String]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let settings = rest.first().map(String::as_str).unwrap_or_default();
    match name.as_str() {
        sandbox::SUBCOMMAND => Some(sandbox::run(settings)),
        user_namespaces::SUBCOMMAND => Some(user_namespaces::hold_namespaces()),
        sandbox::INIT_SUBCOMMAND => Some(sandbox::run_init(settings)),
        sandbox::CONTAINER_SUBCOMMAND => Some(sandbox::run_container()),
        echo::SUBCOMMAND => Some(match echo::Settings::parse(rest) {
            Ok(settings) => echo::run(settings),
            Err(error) => {
                eprintln!("echo: {error}");
                ExitCode::from(2)
            }
        }),
        _ => None,
    }
}
