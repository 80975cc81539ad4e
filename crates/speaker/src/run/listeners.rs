//! Listening sockets for connections of peers: one for each family, outside of VRFs and in each VRF of a peer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::SpeakerError;
use super::sockets::{self, Key};

/// Pause after a failure to accept, such as a lack of file descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// Time between two checks of the links of VRFs, which can be created and deleted at any time.
const VRF_PERIOD: Duration = Duration::from_secs(5);

/// Keys of peers by address.
type Keys = BTreeMap<IpAddr, Key>;

/// Listening sockets, and the keys of peers on them.
pub(super) struct Listeners {
    port: u16,
    outside: ListenerPair,
    vrfs: BTreeMap<String, ListenerPair>,
    /// VRFs of peers, and the keys of their peers.
    desired_vrfs: BTreeMap<String, Keys>,
}

/// Sockets of one VRF, or outside of VRFs.
#[derive(Default)]
struct ListenerPair {
    ipv4: Option<TcpListener>,
    ipv6: Option<TcpListener>,
    keys: Keys,
}

impl Listeners {
    /// Listens at a port outside of VRFs; port 0 accepts nothing. A host without IPv6 listens for IPv4 only.
    pub(super) fn start(port: u16) -> Result<Self, SpeakerError> {
        let outside = if port == 0 {
            ListenerPair::default()
        } else {
            let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
            ListenerPair::open(port, None).map_err(|source| SpeakerError::Listen { address, source })?
        };
        Ok(Self {
            port,
            outside,
            vrfs: BTreeMap::new(),
            desired_vrfs: BTreeMap::new(),
        })
    }

    /// Waits for a connection. Cancel safe.
    pub(super) async fn accept(&mut self) -> (TcpStream, IpAddr) {
        loop {
            let accepted = tokio::select! {
                accepted = poll_fn(|context| self.poll_accept(context)) => accepted,
                () = sleep(VRF_PERIOD), if !self.desired_vrfs.is_empty() => {
                    self.update_vrfs();
                    continue;
                }
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

    /// Listens in the VRFs of peers, sets the keys of peers, and removes those of others. `keys` has an entry for each
    /// VRF, and for peers outside. The next call retries failed changes.
    pub(super) fn set_peers(&mut self, mut keys: BTreeMap<Option<String>, Keys>) {
        self.outside.set_keys(keys.remove(&None).unwrap_or_default());
        let keys_by_vrf = keys.into_iter();
        self.desired_vrfs = keys_by_vrf.filter_map(|(vrf, keys)| Some((vrf?, keys))).collect();
        self.update_vrfs();
    }

    /// Opens listeners in VRFs of peers. Closes listeners in other VRFs, and listeners whose link was deleted.
    fn update_vrfs(&mut self) {
        let desired = &self.desired_vrfs;
        self.vrfs
            .retain(|vrf, pair| desired.contains_key(vrf) && pair.have_links());
        if self.port == 0 {
            return;
        }
        for (vrf, keys) in desired {
            let pair = match self.vrfs.entry(vrf.clone()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => match ListenerPair::open(self.port, Some(vrf)) {
                    Ok(pair) => entry.insert(pair),
                    Err(error) => {
                        // With `tcp_l3mdev_accept`, the listeners outside accept connections of VRFs and use the port.
                        tracing::debug!(%vrf, %error, "no listener in the VRF; retrying");
                        continue;
                    }
                },
            };
            pair.set_keys(keys.clone());
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let pairs = std::iter::once(&self.outside).chain(self.vrfs.values());
        let listeners: Vec<&TcpListener> = pairs.flat_map(ListenerPair::listeners).collect();
        // The order begins at a random listener, so that a busy one does not delay the others.
        let (last, first) = listeners.split_at(fastrand::usize(..=listeners.len()));
        for listener in first.iter().chain(last) {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }
}

impl ListenerPair {
    /// Opens the sockets. A host without IPv6 has only the socket for IPv4.
    fn open(port: u16, vrf: Option<&str>) -> io::Result<Self> {
        let ipv4 = sockets::listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), vrf)?;
        let address = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let ipv6 = sockets::listen(address, vrf)
            .inspect_err(|error| tracing::warn!(%address, vrf, %error, "IPv6 listener not opened"));
        Ok(Self {
            ipv4: Some(ipv4),
            ipv6: ipv6.ok(),
            keys: Keys::new(),
        })
    }

    fn listeners(&self) -> impl Iterator<Item = &TcpListener> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    /// Returns false if the link of the VRF was deleted. A link of the same name is another one.
    fn have_links(&self) -> bool {
        self.listeners().all(|listener| sockets::device(listener).is_ok())
    }

    /// Sets the keys of peers, and removes those of others. The next call retries failed changes.
    fn set_keys(&mut self, keys: Keys) {
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
