//! ARP client on the network: observes which node announces an address.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use testbed::Cluster;
use testbed::asker::{AskError, Hardware};

use crate::setting::{ADDRESS, OTHER, QUESTION_PERIOD, TIMEOUT};

/// Requests of one burst.
const FLOOD: usize = 1_000;

/// ARP client outside of the cluster.
pub struct Asker {
    asker: testbed::asker::Asker,
    /// Hardware addresses in the responses, one entry for each change.
    pub seen: Vec<Hardware>,
}

impl Asker {
    pub fn start(cluster: &Cluster) -> Self {
        let outside = cluster.outside().expect("the outside");
        Self::of(testbed::asker::Asker::new(outside))
    }

    /// Starts the client on one of its links.
    pub fn on(cluster: &Cluster, link: &str) -> Self {
        let outside = cluster.outside().expect("the outside");
        Self::of(testbed::asker::Asker::on(outside, link))
    }

    fn of(asker: Result<testbed::asker::Asker, AskError>) -> Self {
        Self {
            asker: asker.expect("a socket"),
            seen: Vec::new(),
        }
    }

    /// Sends requests for a time, or until only the awaited node has responded since the last request.
    pub fn until(&mut self, lasts: Duration, is_awaited: impl Fn(&Hardware) -> bool) -> Option<Hardware> {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            self.ask(ADDRESS);
            thread::sleep(QUESTION_PERIOD);
            if let Some(last) = self.listen()
                && is_awaited(&last)
            {
                return Some(last);
            }
        }
        None
    }

    /// Sends requests for an address until only the awaited node responds.
    pub fn until_at(&mut self, address: Ipv4Addr, awaited: Hardware) {
        let end = Instant::now() + TIMEOUT;
        loop {
            self.ask(address);
            thread::sleep(QUESTION_PERIOD);
            let last = self.hear().into_iter().rfind(|(of, _)| *of == address);
            if last.is_some_and(|(_, hardware)| hardware == awaited) {
                return;
            }
            assert!(
                Instant::now() < end,
                "{address} is at {last:?}, not at {awaited:?}"
            );
        }
    }

    /// Sends requests for both addresses until only the other one is answered, many times in a row.
    pub fn until_silent(&mut self) {
        let end = Instant::now() + TIMEOUT;
        let mut rounds = 0;
        while rounds < 25 {
            self.ask(ADDRESS);
            self.ask(OTHER);
            thread::sleep(QUESTION_PERIOD);
            let heard = self.hear();
            let is_answered = |address: Ipv4Addr| heard.iter().any(|(of, _)| *of == address);
            match (is_answered(ADDRESS), is_answered(OTHER)) {
                (true, _) => rounds = 0,
                (false, true) => rounds += 1,
                (false, false) => {}
            }
            assert!(Instant::now() < end, "{ADDRESS} is still answered for");
        }
    }

    /// Sends a burst of requests for an address, as fast as the network takes them.
    pub fn flood(&self, address: Ipv4Addr) {
        for _ in 0..FLOOD {
            // The network is full: that is the purpose.
            drop(self.asker.ask(address));
        }
    }

    fn ask(&self, address: Ipv4Addr) {
        self.asker.ask(address).expect("sent");
    }

    fn hear(&self) -> Vec<(Ipv4Addr, Hardware)> {
        self.asker.hear_all().expect("frames")
    }

    /// Reads the pending responses. Returns the hardware address of the last one.
    fn listen(&mut self) -> Option<Hardware> {
        let mut last = None;
        for (_, hardware) in self.hear().into_iter().filter(|(of, _)| *of == ADDRESS) {
            if self.seen.last() != Some(&hardware) {
                self.seen.push(hardware);
            }
            last = Some(hardware);
        }
        last
    }
}
