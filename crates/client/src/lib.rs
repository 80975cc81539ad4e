//! The client side of the Kubernetes API: configuration from a kubeconfig, requests over TLS, list-watch
//! streams that never end and never miss a deletion, and leader election ([`election`]).
//!
//! Objects are decoded straight into the lean views of [`api::object`], one by one: a malformed object
//! is reported and skipped, and does not sink its list.

mod certificate_files;
mod clock;
mod config;
mod counters;
pub mod election;
mod error;
pub mod events;
mod fence;
mod request;
mod tls;
mod transport;
mod watch;

pub use certificate_files::{CertificateFiles, CertificateFilesError};
pub use clock::WallClock;
pub use config::{Config, ConfigError};
pub use counters::{Durations, REQUEST_BOUNDS_SECONDS, Requests};
pub use error::{ClientError, Status, StatusCause, StatusDetails};
pub use fence::{Fence, Moment};
pub use request::{APPLY_PATCH, Client, JSON, MERGE_PATCH, STRATEGIC_PATCH};
pub use tls::tls_config;
pub use transport::{Body, Exchange, TransportError};
pub use watch::{Event, Query, Watch, push_escaped, watch};
