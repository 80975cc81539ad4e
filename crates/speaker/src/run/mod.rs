//! Event loop of the speaker. Inputs are objects; outputs are sessions and reports.
//!
//! - `inputs`: watches of the API; `event_loop`: the sessions, listeners and reports that they require
//! - `session`, `connection`, `sockets`, `listeners`, `passwords`: BGP over TCP
//! - `bfd`, `bfd_echo`: BFD over UDP
//! - `local_links`, `router_discovery`: links, and routers without a configured address

mod bfd;
mod bfd_echo;
mod connection;
mod event_loop;
mod inputs;
mod listeners;
mod local_links;
mod passwords;
mod router_discovery;
mod session;
mod sockets;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use client::Client;
use tokio::sync::watch;

use crate::report::Metrics;
use event_loop::Speaker;

/// Settings of a speaker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the Node of this process.
    pub node_name: String,
    /// TCP port for connections of peers; 0 to accept none.
    pub port: u16,
    /// Namespace of MetalLB's objects; `None` to ignore them.
    pub metallb_namespace: Option<String>,
    /// Announce from nodes with the label `node.kubernetes.io/exclude-from-external-load-balancers` (LBM-18).
    pub ignores_exclude_label: bool,
    /// Addresses that the edge of this process serves; `None` without an edge. A closed channel with addresses means that
    /// the edge of a successor process serves them.
    pub served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
}

/// Error of the start of a speaker.
#[derive(Debug, thiserror::Error)]
pub enum SpeakerError {
    /// Another process uses the port. A retry may succeed.
    #[error(
        "failed to listen for BGP at TCP {address}: {source}; stop the other BGP speaker of this node, or set --bgp-port=0 \
         to accept no connections"
    )]
    Listen {
        /// Address of the socket.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Announces addresses by BGP until `shutdown` resolves. Peers with graceful restart keep the routes after that, because a
/// successor process continues; sessions with others end with a NOTIFICATION.
///
/// # Errors
/// The port is in use.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), SpeakerError> {
    let mut speaker = Speaker::start(client, settings, metrics)?;
    let steps = async {
        loop {
            speaker.step().await;
        }
    };
    tokio::select! {
        () = shutdown => {}
        () = steps => {}
    }
    speaker.stop().await;
    Ok(())
}
