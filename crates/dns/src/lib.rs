//! DNS server of a cluster.
//!
//! - `wire` reads queries and writes responses; `records` is the pure index of the zone.
//! - `zone` chooses between the live index and the `snapshot`; `feed` keeps the index current by watches.
//! - `forward` queries resolvers and caches their responses. `client_shares` bounds what one client takes.
//! - `server` owns the sockets; `transfer` writes zone transfers.
//! - `metrics`, `health_server` and `query_explanation` report the state.
//! - `node_local` sets up node-local DNS.
//! - `config` and `run` assemble the server.
//!
//! A server without an API, which answers from an index:
//!
//! ```no_run
//! use std::sync::Arc;
//! use dns::forward::Forwarder;
//! use dns::records::{Index, Settings};
//! use dns::server::{Responder, Server};
//! use dns::wire::Name;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let index = Index::new(Settings::of(Name::from_text("cluster.local")?));
//! index.apply_namespace("default")?;
//! index.set_synced();
//! let responder = Arc::new(Responder::new(Arc::new(index), Forwarder::to(Vec::new())));
//! let server = Server::start(&["127.0.0.1:5300".parse()?], responder)?;
//! println!("listening on {:?}", server.addresses());
//! # Ok(())
//! # }
//! ```

mod client_shares;
mod config;
mod feed;
pub mod forward;
mod health_server;
mod metrics;
mod node_local;
mod query_explanation;
pub mod records;
mod run;
pub mod server;
mod snapshot;
mod transfer;
pub mod wire;
pub mod zone;

pub use config::{AllowFrom, Config, SnapshotSettings, StartError, TlsFiles, Upstreams};
pub use metrics::Metrics;
pub use node_local::{NodeLocalError, tear_down as tear_down_node_local};
pub use query_explanation::{explain, query_type_of};
pub use run::{explain_from_api, run};
