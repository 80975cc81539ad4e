//! The API server: HTTPS, discovery, and the verbs of the Kubernetes API on objects that a [`store`] keeps.
//!
//! A request goes through these modules in this order: `server` (connections), `handler` (who asks), `call` (which verb),
//! `route` (a path is data), `query` and `negotiation` (options and media types), `resource` (the verbs, with what is
//! particular to a kind in one table of strategies), `service` (what Services are given), `printing`, `answer` and
//! `compression`. What is meant for a Pod goes through `passing` in the place of `resource`.
//! What goes wrong anywhere is a [`Failure`], which clients see as a `Status`.
//!
//! Before anything is done, `authentication` finds out who asks, `flow_control` whether they ask too much, and
//! `authorization` whether they may; `admission` looks at what is written. `questions` answers who may do what.

mod admission;
mod answer;
mod api_servers;
mod authentication;
mod authorization;
mod bootstrap;
mod call;
mod compression;
mod config;
mod documents;
mod event;
mod event_expiry;
mod failure;
mod flow_control;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod handler;
mod health;
pub mod kubeconfig;
mod metrics;
mod namespace;
mod negotiation;
mod passing;
pub mod pki;
mod printing;
pub mod private_file;
mod query;
mod questions;
mod repair;
mod request_body;
mod resource;
mod route;
mod server;
pub mod service;

pub use admission::AdmissionPlugin;
pub use authentication::{KeyError, TokenFileError};
pub use authorization::AuthorizationMode;
pub use bootstrap::BootstrapError;
pub use config::{Access, Config, EndpointReconciler, KubernetesService, NODE_PORTS_DEFAULT};
pub use documents::GIT_VERSION;
pub use failure::Failure;
pub use flow_control::RequestLimits;
pub use server::{Server, StartError, TlsError};
