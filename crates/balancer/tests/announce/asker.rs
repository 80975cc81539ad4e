//! The client, which asks by ARP who has an address.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use netlink::packet::{Frames, PacketSocket};
use testbed::Cluster;

use crate::setting::{ADDRESS, Hardware, OTHER, PATIENCE, QUESTION_PERIOD, link_of};

/// Questions of a moment's flood.
const FLOOD: usize = 1_000;

/// The client, on the outside.
pub struct Asker {
    socket: PacketSocket,
    hardware: Hardware,
    /// Who said that it has the address, one entry for each change.
    pub seen: Vec<Hardware>,
}

impl Asker {
    pub fn start(cluster: &Cluster) -> Self {
        Self::on(cluster, "eth0")
    }

    /// On one of its links.
    pub fn on(cluster: &Cluster, link: &str) -> Self {
        let outside = cluster.outside().expect("the outside");
        let (link, hardware) = link_of(&outside.namespace, link);
        let socket = outside.enter(|| PacketSocket::open(link, Frames::Arp));
        Self {
            socket: socket.expect("the namespace").expect("a socket"),
            hardware,
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
        let question = self.question(address);
        for _ in 0..FLOOD {
            // The network is full; that is what it is about.
            drop(self.socket.send(&question));
        }
    }

    fn ask(&self, address: Ipv4Addr) {
        self.socket.send(&self.question(address)).expect("sent");
    }

    fn question(&self, address: Ipv4Addr) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(self.hardware);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(self.hardware);
        frame.extend([172, 30, 0, 100, 0, 0, 0, 0, 0, 0]);
        frame.extend(address.octets());
        frame
    }

    /// Who said of which address that it is there, since the last call.
    fn hear(&self) -> Vec<(Ipv4Addr, Hardware)> {
        let mut frame = [0; 128];
        let mut heard = Vec::new();
        loop {
            match self.socket.receive(&mut frame) {
                Ok(_) => {
                    let address: [u8; 4] = frame[28..32].try_into().expect("four bytes");
                    heard.push((address.into(), frame[22..28].try_into().expect("six bytes")));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return heard,
                Err(error) => panic!("{error}"),
            }
        }
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
