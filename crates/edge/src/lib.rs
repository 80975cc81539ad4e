//! Edge: a reverse proxy for Services that need more than packet forwarding, with TLS, HTTP, PROXY protocol, health
//! checks and draining. It does not depend on Kubernetes: [`settings`] describe all Services that the edge serves, and
//! the edge applies the differences.
//!
//! A connection passes these modules:
//!
//! 1. A thread of `workers` accepts it. Most connections stay with the thread that accepted them.
//! 2. `inbound` identifies the client and applies limits: `admission`, PROXY header ([`proxy_protocol`]), source
//!    ranges, TLS.
//! 3. `backends` choose a backend, and `outbound` connects to it, or to another one if that fails.
//! 4. `relay` relays bytes, [`http`] requests, or `udp` datagrams. [`log`] writes the access log.
//!
//! A port with [`routes`] sends each HTTP request to the backends of another port, which has no address of its own.
//!
//! The connections of a Service's port share its `port`: policy, admission and counters. `service_table`
//! applies settings, and opens and closes listening sockets. [`Faults`], [`status`] and [`Edge::metrics`]
//! report the state of ports.
//!
//! Invariants:
//!
//! - A listener that stays in the settings stays open. Its next connection uses the new certificates, backends and
//!   limits.
//! - Connections continue after changes of settings. The edge closes them only for draining, the idle timeout, the
//!   maximum age, and its shutdown.
//! - An idle connection holds no buffer and no pipe.
//! - Every table of clients is bounded. Further clients are served without an entry.
//! - Many connections to one Service leave connections for others: each Service has a share of the process's
//!   connections.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use edge::settings::{Backend, BackendProtocol, Frontend, Listener, ServiceName, ServiceSettings, Settings};
//! use edge::{Edge, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let edge = Edge::start(Options::default())?;
//! let listener = Listener {
//!     name: "http".into(),
//!     port: 8080,
//!     frontend: Frontend::Http { redirects_to_https: None },
//!     backend_protocol: BackendProtocol::Http,
//!     backends: vec![Backend::ready("10.0.0.7:80".parse()?)],
//! };
//! let service = ServiceName { namespace: "shop".into(), name: "web".into() };
//! let settings = ServiceSettings::new(vec!["192.0.2.1".parse()?], vec![listener]);
//! edge.apply(&Settings::from([(service, Arc::new(settings))]));
//! for (port, faults) in edge.faults().borrow().iter() {
//!     eprintln!("{port}: {faults:?}");
//! }
//! # Ok(())
//! # }
//! ```

mod admission;
mod backends;
mod check_limits;
mod connection_age;
mod connections;
mod counters;
mod edge;
mod edge_state;
mod faults;
mod handover;
mod health_checks;
pub mod http;
mod inbound;
mod loaded_certificate;
pub mod log;
mod metrics;
mod outbound;
mod peer;
mod port;
mod port_key;
pub mod proxy_protocol;
mod refusal;
mod relay;
pub mod routes;
mod service_table;
pub mod settings;
mod sockets;
pub mod status;
pub mod sticky_cookie;
mod stream;
mod tls;
mod udp;
mod watch_flag;
mod worker_load;
mod workers;

pub use admission::shares::Shares;
pub use edge::{Edge, Options, StartError};
pub use faults::{Fault, Faults};
pub use handover::HandoverError;
pub use peer::{Peer, TlsPeer};
pub use port_key::{PortKey, Transport};
pub use refusal::ConnectionRefusal;
pub use sticky_cookie::StickySecrets;
pub use tls::certificate_fault;
