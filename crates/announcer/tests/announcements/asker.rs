//! The client, which asks by ARP who has an address.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use testbed::Cluster;
use testbed::asker::{AskError, Hardware};

use crate::setting::{ADDRESS, OTHER, PATIENCE, QUESTION_PERIOD};

/// Questions of a moment's flood.
const FLOOD: usize = 1_000;

/// The client, on the outside.
pub struct Asker {
    asker: testbed::asker::Asker,
    /// Who said that it has the address, one entry for each change.
    pub seen: Vec<Hardware>,
}

impl Asker {
    pub fn start(cluster: &Cluster) -> Self {
        let outside = cluster.outside().expect("the outside");
        Self::of(testbed::asker::Asker::new(outside))
    }

    /// On one of its links.
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

    /// Asks again and again, for a while, or until only the one who is awaited has answered since.
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

    /// Asks for an address until only the one who is awaited answers.
    pub fn until_at(&mut self, address: Ipv4Addr, awaited: Hardware) {
        let end = Instant::now() + PATIENCE;
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

    /// Asks for the address and the other one until only the other one is answered for, many times one after the other.
    pub fn until_silent(&mut self) {
        let end = Instant::now() + PATIENCE;
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

    /// Asks for an address as fast as the network takes it, for a moment.
    pub fn flood(&self, address: Ipv4Addr) {
        for _ in 0..FLOOD {
            // The network is full; that is what it is about.
            drop(self.asker.ask(address));
        }
    }

    fn ask(&self, address: Ipv4Addr) {
        self.asker.ask(address).expect("sent");
    }

    fn hear(&self) -> Vec<(Ipv4Addr, Hardware)> {
        self.asker.hear_all().expect("frames")
    }

    /// Takes in what came; who said last that it has the address.
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
