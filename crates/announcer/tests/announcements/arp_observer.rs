//! ARP client on the network: observes which node announces an address.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use testbed::Cluster;
use testbed::arp_client::{ArpClient, ArpClientError, EthernetAddress};

use crate::fixture::{ADDRESS, OTHER, REQUEST_PERIOD, TIMEOUT};

/// Requests of one burst.
const BURST: usize = 1_000;
/// Rounds without a reply after which an address counts as unanswered.
const SILENT_ROUNDS: usize = 25;

/// ARP client outside of the cluster.
pub(crate) struct ArpObserver {
    client: ArpClient,
    /// Ethernet addresses in the replies for [`ADDRESS`], one entry for each change.
    pub owners: Vec<EthernetAddress>,
}

impl ArpObserver {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let outside = cluster.outside().expect("the outside");
        Self::of(ArpClient::new(outside))
    }

    /// Starts the client on one of its links.
    pub(crate) fn on(cluster: &Cluster, link: &str) -> Self {
        let outside = cluster.outside().expect("the outside");
        Self::of(ArpClient::on_link(outside, link))
    }

    fn of(client: Result<ArpClient, ArpClientError>) -> Self {
        Self {
            client: client.expect("a socket"),
            owners: Vec::new(),
        }
    }

    /// Sends requests for `duration` and records the owners.
    pub(crate) fn observe(&mut self, duration: Duration) {
        self.find_owner(duration, |_| false);
    }

    /// Sends requests until the last reply comes from an expected owner, and returns that one.
    pub(crate) fn wait_for_owner(
        &mut self,
        is_expected: impl Fn(&EthernetAddress) -> bool,
    ) -> EthernetAddress {
        self.find_owner(TIMEOUT, is_expected).expect("the expected owner")
    }

    fn find_owner(
        &mut self,
        timeout: Duration,
        is_expected: impl Fn(&EthernetAddress) -> bool,
    ) -> Option<EthernetAddress> {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            self.send_request(ADDRESS);
            thread::sleep(REQUEST_PERIOD);
            if let Some(last) = self.record_owners()
                && is_expected(&last)
            {
                return Some(last);
            }
        }
        None
    }

    /// Sends requests for an address until `owner` replies last.
    pub(crate) fn wait_until_owned(&mut self, address: Ipv4Addr, owner: EthernetAddress) {
        let end = Instant::now() + TIMEOUT;
        loop {
            self.send_request(address);
            thread::sleep(REQUEST_PERIOD);
            let last = self.claims().into_iter().rfind(|(of, _)| *of == address);
            if last.is_some_and(|(_, hardware)| hardware == owner) {
                return;
            }
            assert!(
                Instant::now() < end,
                "{address}: expected replies of {owner:?}, found {last:?}"
            );
        }
    }

    /// Sends requests for [`ADDRESS`] and [`OTHER`] until only the other one is answered, many times in a row.
    pub(crate) fn wait_until_unanswered(&mut self) {
        let end = Instant::now() + TIMEOUT;
        let mut rounds = 0;
        while rounds < SILENT_ROUNDS {
            self.send_request(ADDRESS);
            self.send_request(OTHER);
            thread::sleep(REQUEST_PERIOD);
            let claims = self.claims();
            let is_answered = |address: Ipv4Addr| claims.iter().any(|(of, _)| *of == address);
            match (is_answered(ADDRESS), is_answered(OTHER)) {
                (true, _) => rounds = 0,
                (false, true) => rounds += 1,
                (false, false) => {}
            }
            assert!(
                Instant::now() < end,
                "{ADDRESS}: expected no reply, got some until now"
            );
        }
    }

    /// Sends a burst of requests for an address, as fast as the network takes them.
    pub(crate) fn flood(&self, address: Ipv4Addr) {
        for _ in 0..BURST {
            // A full network rejects requests, which is the purpose.
            drop(self.client.send_request(address));
        }
    }

    fn send_request(&self, address: Ipv4Addr) {
        self.client.send_request(address).expect("a sent request");
    }

    fn claims(&self) -> Vec<(Ipv4Addr, EthernetAddress)> {
        self.client.claims().expect("frames")
    }

    /// Records the owners in the pending replies. Returns the last one.
    fn record_owners(&mut self) -> Option<EthernetAddress> {
        let mut last = None;
        for (_, hardware) in self.claims().into_iter().filter(|(of, _)| *of == ADDRESS) {
            if self.owners.last() != Some(&hardware) {
                self.owners.push(hardware);
            }
            last = Some(hardware);
        }
        last
    }
}
