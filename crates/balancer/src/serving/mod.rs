//! Edge server of a node: it serves the Services whose addresses the node owns.
//!
//! The assigner selects the Services of the edge (`ipMode: Proxy` in their status), and the announcer selects the node
//! of each address. For each address of this node, the edge server first makes the address local, then configures the
//! edge. Only then does the announcer answer for the address.
//!
//! | Module | Contents |
//! |---|---|
//! | `server` | event loop with watches, the edge, secrets, addresses, Events and the report |
//! | `state` | caches, and the edge's settings as a pure function of them |
//! | [`certificates`], [`secret`] | Secrets that Services refer to, and the certificates in them |
//! | [`local_addresses`] | addresses that the kernel accepts as local |
//! | `draining_addresses` | addresses of other nodes whose connections continue here |
//! | `faults` | faults of ports for the report, and messages for Events |

pub mod certificates;
mod draining_addresses;
mod faults;
pub mod local_addresses;
mod metrics;
pub mod secret;
mod server;
mod settings;
mod state;

use std::time::Duration;

use netlink::route::RouteError;

pub use metrics::Metrics;
pub use server::run;
pub use settings::{Addresses, AllowedBuckets, Settings};

/// Maximum time for which the owner forwards packets of open connections to the previous owner, and the previous owner
/// continues to serve the address. Older connections are closed.
pub const FORWARDING_DURATION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Failure of the edge server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The edge does not start.
    #[error(transparent)]
    Edge(#[from] edge::StartError),
    /// The kernel does not list its local routes.
    #[error("addresses cannot be made local: {0}")]
    LocalAddresses(#[from] RouteError),
}
