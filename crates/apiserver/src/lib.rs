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

mod access;
mod bootstrap;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod metrics;
mod portions;
mod registry;
mod request;
mod server;
mod shutdown;
mod transport;
mod verbs;
mod version;

pub use access::audit::{
    AuditLogError, AuditLogSettings, AuditMode, AuditPolicy, AuditPolicyError, AuditSettings, BatchSettings,
};
pub use access::authentication::{KeyError, TokenFileError};
pub use access::authorization::AuthorizationMode;
pub use access::flow_control::RequestLimits;
pub use bootstrap::cluster_objects::BootstrapError;
pub use bootstrap::{kubeconfig, pki};
pub use failure::Failure;
pub use registry::admission::{AdmissionConfiguration, AdmissionConfigurationError, AdmissionPlugin};
pub use registry::encryption::{ConfigurationError, Encryption};
pub use registry::service;
pub use server::config::{
    Access, Config, EncryptionAtRest, EndpointReconciler, KubernetesService, NODE_PORTS_DEFAULT,
};
pub use server::{Server, StartError};
pub use transport::tls::TlsError;
pub use version::GIT_VERSION;
