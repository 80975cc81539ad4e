//! The API server: HTTPS, discovery, and the verbs of the Kubernetes API on objects that a [`store`] keeps.
//!
//! A request goes through these modules in this order: `server` (connections), `handler` (who asks), `call` (which verb),
//! `route` (a path is data), `query` and `negotiation` (options and media types), `resource` (the verbs, with what is
//! particular to a kind in one table of strategies), `service` (what Services are given), `printing`, `answer` and
//! `compression`. What is meant for a Pod goes through `passing` in the place of `resource`.
//! What goes wrong anywhere is a [`Failure`], which clients see as a `Status`.
//!
//! `encryption` is what the store encrypts and decrypts values with.
//!
//! Before anything is done, `authentication` finds out who asks, `flow_control` counts it against the user's rate, and
//! `authorization` decides whether they may. `request_body` reads the body, and `flow_control` gives the request a seat; both keep
//! a part for each user (`portions`). `admission` looks at what is written. `questions` answers who may do what.

mod admission;
mod answer;
mod api_servers;
mod audit;
mod authentication;
mod authorization;
mod bootstrap;
mod call;
mod compression;
mod config;
mod documents;
mod encryption;
mod event;
mod event_expiry;
mod failure;
mod flow_control;
mod forwarded_body;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod handler;
mod health;
pub mod kubeconfig;
mod lasting;
mod metrics;
mod namespace;
mod negotiation;
mod passing;
pub mod pki;
mod portions;
mod printing;
mod query;
mod questions;
mod repair;
mod request_body;
mod resource;
mod route;
mod server;
pub mod service;

pub use admission::{AdmissionConfiguration, AdmissionConfigurationError, AdmissionPlugin};
pub use audit::{
    AuditLogError, AuditLogSettings, AuditMode, AuditPolicy, AuditPolicyError, AuditSettings, BatchSettings,
};
pub use authentication::{KeyError, TokenFileError};
pub use authorization::AuthorizationMode;
pub use bootstrap::BootstrapError;
pub use config::{
    Access, Config, EncryptionAtRest, EndpointReconciler, KubernetesService, NODE_PORTS_DEFAULT,
};
pub use documents::GIT_VERSION;
pub use encryption::{ConfigurationError, Encryption};
pub use failure::Failure;
pub use flow_control::RequestLimits;
pub use server::{Server, StartError, TlsError};
