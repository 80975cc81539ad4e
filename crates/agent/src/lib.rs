//! Agent for Pods on hosts without Kubernetes. It runs the Pods of one node as processes in their own namespaces, so
//! that Services have backends without a kubelet.
//!
//! Modules have the names of the kubelet's parts, if the kubelet has the part.
//!
//! - [`run`] registers the Node and starts the sync loop, which dispatches Pods to their workers (`sync_loop`,
//!   `pod_worker`).
//! - A worker allocates addresses and connects the Pod ([`network`]). It starts a sandbox ([`sandbox`], through [`runtime`])
//!   and containers in it in the order of [`containers`], and writes the status ([`status`]).
//! - The endpoint for the API server (`server`) has logs, streams to containers, and reports. A report holds the
//!   observation of the node or the usage of its containers (`stats`).
//! - An image table maps images to programs of the node ([`image_table`]). Other images come from the store of the node,
//!   into which the agent pulls them.
//! - Pods outlive the agent. The next agent adopts them from their records and checkpoints ([`state_directory`]).
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
//! use agent::manifests::parse;
//!
//! let manifest = b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"web\"},
//!     \"spec\": {\"containers\": [{\"name\": \"web\", \"image\": \"portolan.dev/echo\"}]}}";
//! let pods = parse(manifest, Path::new("web.json"), "node-1").expect("a valid manifest");
//! assert_eq!(pods[0].key().to_string(), "default/web-node-1");
//! ```

mod agent;
mod capabilities;
pub mod cgroups;
mod confinement;
pub mod containers;
mod context;
pub mod echo;
pub mod environment;
mod ephemeral_storage;
pub mod events;
mod hosts_file;
mod image_access;
mod image_puller;
pub mod image_table;
mod images_in_use;
mod leftovers;
pub mod logs;
pub mod manifests;
mod mirror_pod;
mod mount_attributes;
pub mod network;
mod node;
pub mod object;
mod pod_api;
mod pod_removal;
mod pod_worker;
mod pull_credentials;
mod pull_policy;
pub mod quantity;
mod registration;
pub mod reports;
pub mod resolv_conf;
mod rfc3339;
pub mod runtime;
pub mod sandbox;
pub mod seccomp;
pub mod server;
mod services;
pub mod settings;
pub mod state_directory;
mod static_pods;
mod stats;
pub mod status;
mod status_writer;
mod stop_signal;
mod sync_loop;
mod sysctls;
mod termination_message;
pub mod user_namespaces;
pub mod volumes;

use std::process::ExitCode;

pub use agent::{AgentError, check_capabilities, run};
pub use images_in_use::release_images;
pub use pod_removal::{RemovedPods, remove_pods};
pub use settings::{NodeTaint, PODS_MAX_DEFAULT, Settings, ShutdownPolicy, StaticPods};

/// Runs a hidden subcommand if the arguments, without the name of the program, begin with one. Call this first in
/// `main`, because a sandbox must have only one thread when it leaves the agent's namespaces.
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
            Err(error) => {
                eprintln!("echo: {error}");
                ExitCode::from(2)
            }
        }),
        _ => None,
    }
}
