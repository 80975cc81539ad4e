//! API server: HTTPS, access control, and the verbs of the Kubernetes API on objects of a [`store`].
//!
//! A request passes the modules of the crate in this order:
//!
//! - `transport` accepts the connection, serves HTTP, and reads the body.
//! - `request` parses path, query and Accept headers into a `RequestInfo`.
//! - `access` authenticates, limits and authorizes the request, and writes the audit log.
//! - `verbs` handles it: objects, discovery, reviews, health, and requests that are proxied to Pods.
//! - `registry` holds the rules of kinds: admission, Services with their allocations, Namespaces, encryption at rest.
//!
//! `bootstrap` issues certificates and creates the objects that every cluster has; `server` assembles
//! everything. A failed request is a [`Failure`], which clients receive as a `Status`.

mod access;
mod bootstrap;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod limited_pool;
mod metrics;
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
pub use bootstrap::{kubeconfig, load_embedded_tables, pki};
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
