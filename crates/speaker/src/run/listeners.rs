//! Listening sockets for connections of peers, one for each family.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::SpeakerError;
use super::sockets::{self, Key};

/// Pause after a failure to accept, such as a lack of file descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Listening sockets, and the keys of peers on them.
pub(super) struct Listeners {
    ipv4: Option<TcpListener>,
    ipv6: Option<TcpListener>,
    keys: BTreeMap<IpAddr, Key>,
}

impl Listeners {
    /// Listens at a port; port 0 accepts nothing. A host without IPv6 listens for IPv4 only.
    pub(super) fn start(port: u16) -> Result<Self, SpeakerError> {
        let mut listeners = Self {
            ipv4: None,
            ipv6: None,
            keys: BTreeMap::new(),
        };
        if port == 0 {
            return Ok(listeners);
        }
        let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let listener = sockets::listen(address).map_err(|source| SpeakerError::Listen { address, source })?;
        listeners.ipv4 = Some(listener);
        let address = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        match sockets::listen(address) {
            Ok(listener) => listeners.ipv6 = Some(listener),
            Err(error) => tracing::warn!(%address, %error, "IPv6 listener not opened"),
        }
        Ok(listeners)
    }

    /// Waits for a connection. Cancel safe.
    pub(super) async fn accept(&self) -> (TcpStream, IpAddr) {
        loop {
            let accepted = tokio::select! {
                accepted = accept(self.ipv4.as_ref()) => accepted,
                accepted = accept(self.ipv6.as_ref()) => accepted,
            };
            match accepted {
                Ok((stream, address)) => return (stream, address.ip()),
                Err(error) => {
                    tracing::debug!(%error, "connection not accepted");
                    sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }

    /// Sets the keys of peers, and removes those of others. The next call tries again what fails.
    pub(super) fn set_keys(&mut self, keys: BTreeMap<IpAddr, Key>) {
        let present = std::mem::take(&mut self.keys);
        for (peer, former) in &present {
            if !keys.contains_key(peer) && !self.set_key(*peer, None) {
                self.keys.insert(*peer, former.clone());
            }
        }
        for (peer, key) in keys {
            if present.get(&peer) == Some(&key) || self.set_key(peer, Some(&key)) {
                self.keys.insert(peer, key);
            }
        }
    }

    /// Sets or removes a key. Returns false after a failure.
    fn set_key(&self, peer: IpAddr, key: Option<&Key>) -> bool {
        let listener = if peer.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        if let Some(listener) = listener
            && let Err(error) = sockets::set_listener_key(listener, peer, key)
        {
            tracing::error!(%peer, %error, "TCP MD5 not set; connections of the peer fail");
            return false;
        }
        true
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
