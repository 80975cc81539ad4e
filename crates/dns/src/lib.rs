//! The cluster's DNS server.
//!
//! - `wire` reads queries and writes answers, `records` is the pure index that knows what to answer;
//! - `zone` chooses between the live index and the last good state (`snapshot`), `feed` keeps the index up with the
//!   API;
//! - `forward` asks upstream for what is not the cluster's, and keeps the answers;
//! - `server` owns the sockets, `transfer` writes whole zones;
//! - `metrics`, `status` and `explain` tell what goes on;
//! - `node_local` makes this node's own addresses for DNS;
//! - `config` and `run` put it together.

mod config;
mod explain;
mod feed;
pub mod forward;
mod metrics;
mod node_local;
pub mod records;
mod run;
pub mod server;
mod snapshot;
mod status;
mod transfer;
pub mod wire;
pub mod zone;

pub use config::{AllowFrom, Config, SnapshotSettings, StartError, TlsFiles, Upstreams};
pub use explain::{explain, kind_of_text};
pub use metrics::Metrics;
pub use node_local::{NodeLocalError, tear_down as tear_down_node_local};
pub use run::{explain_from_api, run};
