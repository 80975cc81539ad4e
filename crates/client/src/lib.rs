//! Client of the Kubernetes API: kubeconfig, requests over TLS, list-watch streams that report each deletion, and
//! leader election ([`election`]).
//!
//! Objects are decoded into the views of [`api::object`], one by one. A malformed object is reported and skipped, and
//! does not affect the rest of its list.
//!
//! ```no_run
//! use api::object::Service;
//! use client::{Client, Config, Event, Query, watch};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Config::from_kubeconfig("/etc/portolan/kubeconfig".as_ref())?)?;
//! let mut services = watch::<Service>(&client, Query::default());
//! loop {
//!     match services.next().await {
//!         Event::Applied(service) => println!("applied {}", service.metadata.name),
//!         Event::Deleted(key) => println!("deleted {key}"),
//!         Event::Synced => println!("initial list complete"),
//!         Event::Malformed { key, error } => eprintln!("{key}: {error}"),
//!     }
//! }
//! # }
//! ```

mod certificate_files;
mod clock;
mod config;
mod counters;
pub mod election;
mod error;
pub mod events;
mod fence;
mod page_size;
mod request;
mod request_metrics;
mod tls;
mod transport;
mod watch;

pub use certificate_files::{CertificateFiles, CertificateFilesError};
pub use clock::WallClock;
pub use config::{Config, ConfigError};
pub use error::{ClientError, Status, StatusCause, StatusDetails};
pub use fence::{Fence, Moment};
pub use page_size::PageSize;
pub use request::{APPLY_PATCH, Client, JSON, MERGE_PATCH, STRATEGIC_PATCH};
pub use tls::tls_config;
pub use transport::{Body, Exchange, TransportError};
pub use watch::{Event, Query, SharedWatch, Subscription, Watch, push_escaped, watch};
