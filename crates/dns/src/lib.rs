//! The cluster's DNS server.
//!
//! [`wire`] reads queries and writes answers, [`records`] is the pure index that knows what to answer,
//! [`server`] owns the sockets, [`forward`] asks upstream for what is not the cluster's, and `feed` keeps
//! the index up with the API.

mod feed;
pub mod forward;
pub mod records;
pub mod server;
pub mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use client::Client;

use forward::{Forwarder, ResolvConfError, read_resolv_conf, without_self};
use records::{Index, Settings};
use server::{ListenError, Responder, Server, own_addresses};
use wire::Name;

/// What the DNS server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses and ports to listen on, over UDP and TCP. `[::]` does not include IPv4.
    pub listen: Vec<SocketAddr>,
    /// The cluster's zone, in lower case.
    pub cluster_domain: Name,
    /// Who knows the names outside of the cluster.
    pub upstreams: Upstreams,
    /// Seconds for which answers may be kept (DNS-24: 0 to 3600, 5 by default).
    pub ttl_seconds: u32,
}

/// Who knows the names outside of the cluster.
#[derive(Clone, Debug)]
pub enum Upstreams {
    /// The resolvers of a file in the form of `/etc/resolv.conf`.
    ResolvConf(PathBuf),
    /// These resolvers; with none, names outside of the cluster are refused.
    Addresses(Vec<SocketAddr>),
}

/// Why the DNS server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file of resolvers cannot be read.
    #[error(transparent)]
    ResolvConf(#[from] ResolvConfError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Serves the records of the API behind `client` until the future is dropped. Queries for the cluster's
/// names fail until all of them are known (DNS-16). Without a client that is for ever.
pub async fn run(config: Config, client: Option<Client>) -> Result<(), StartError> {
    let own = own_addresses(&config.listen);
    let upstreams = match config.upstreams {
        Upstreams::ResolvConf(path) => read_resolv_conf(&path)?,
        Upstreams::Addresses(addresses) => addresses,
    };
    let forwarder = Forwarder::new(without_self(upstreams, &config.listen, &own));
    let index = Arc::new(Index::new(Settings {
        cluster_domain: config.cluster_domain,
        ttl_seconds: config.ttl_seconds,
        own_addresses: own,
        serial: unix_seconds(),
    }));
    let server = Server::start(&config.listen, Arc::new(Responder::new(index.clone(), forwarder)))?;
    tracing::info!(addresses = ?server.addresses(), domain = %config.cluster_domain, "DNS is served");
    match client {
        Some(client) => feed::feed(&index, &client).await,
        None => std::future::pending().await,
    }
    Ok(())
}

/// The present time, from which serial numbers go on; so a restart does not go back to old ones.
fn unix_seconds() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}
