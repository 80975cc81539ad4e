//! Rules as text, spelled as `iptables-save` spells them, so that what is read back can be compared.

use std::fmt::Write;
use std::net::IpAddr;

use api::object::Protocol;
use ipnet::IpNet;
use plan::Family;

use super::context::PodMatch;

/// The longest comment that the kernel takes, less its final zero.
const COMMENT_BYTES_MAX: usize = 255;
/// The kernel compares a random number of so many bits with the probability.
const PROBABILITY_BITS: u32 = 31;

/// A rule, without its chain. Its parts are printed in the order in which `iptables-save` prints them; matches in the
/// order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    source: String,
    destination: String,
    interface: String,
    rest: String,
}

impl Rule {
    /// A rule that takes every packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only what comes from a range.
    pub fn source(mut self, net: IpNet) -> Self {
        self.source = format!("-s {net} ");
        self
    }

    /// Only what does not come from a range.
    pub fn not_source(mut self, net: IpNet) -> Self {
        self.source = format!("! -s {net} ");
        self
    }

    /// Only what goes to a range.
    pub fn destination(mut self, net: IpNet) -> Self {
        self.destination = format!("-d {net} ");
        self
    }

    /// Only what does not go to a range.
    pub fn not_destination(mut self, net: IpNet) -> Self {
        self.destination = format!("! -d {net} ");
        self
    }

    /// Only what goes to an address.
    pub fn to(self, address: IpAddr) -> Self {
        self.destination(address.into())
    }

    /// Only what comes from a Pod, as far as this tells.
    pub fn of_pods(mut self, pods: &PodMatch) -> Self {
        match pods {
            PodMatch::Range(net) => self.source(*net),
            PodMatch::Interface(pattern) => {
                self.interface = format!("-i {pattern} ");
                self
            }
        }
    }

    /// Only what does not come from a Pod, as far as this tells.
    pub fn not_of_pods(mut self, pods: &PodMatch) -> Self {
        match pods {
            PodMatch::Range(net) => self.not_source(*net),
            PodMatch::Interface(pattern) => {
                self.interface = format!("! -i {pattern} ");
                self
            }
        }
    }

    /// Only a protocol.
    pub fn protocol(self, protocol: Protocol) -> Self {
        self.part(format_args!("-p {}", word(protocol)))
    }

    /// Says what it is for.
    pub fn comment(mut self, text: &str) -> Self {
        let mut end = text.len().min(COMMENT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.rest.push_str("-m comment --comment \"");
        for character in text.get(..end).unwrap_or_default().chars() {
            if matches!(character, '"' | '\\' | '\'') {
                self.rest.push('\\');
            }
            self.rest.push(character);
        }
        self.rest.push_str("\" ");
        self
    }

    /// Any match that has no words of its own here.
    pub fn matching(self, text: &str) -> Self {
        self.part(format_args!("-m {text}"))
    }

    /// Only what comes from an address of this node.
    pub fn of_node(self) -> Self {
        self.matching("addrtype --src-type LOCAL")
    }

    /// Only what goes to an address of this node.
    pub fn at_node(self) -> Self {
        self.matching("addrtype --dst-type LOCAL")
    }

    /// Only one in `count`, by chance.
    pub fn one_in(self, count: usize) -> Self {
        let steps = f64::from(1_u32 << PROBABILITY_BITS);
        let nearest = (steps / count as f64).round() / steps;
        self.part(format_args!(
            "-m statistic --mode random --probability {nearest:.11}"
        ))
    }

    /// Only who is remembered in a list since so many seconds.
    pub fn remembered(self, list: impl std::fmt::Display, seconds: u32, family: Family) -> Self {
        let mask = whole_address(family);
        self.part(format_args!(
            "-m recent --rcheck --seconds {seconds} --reap --name {list} --mask {mask} --rsource"
        ))
    }

    /// Remembers the source in a list.
    pub fn remember(self, list: impl std::fmt::Display, family: Family) -> Self {
        let mask = whole_address(family);
        self.part(format_args!(
            "-m recent --set --name {list} --mask {mask} --rsource"
        ))
    }

    /// Only a port of the protocol that was named before.
    pub fn port(self, protocol: Protocol, port: u16) -> Self {
        self.part(format_args!("-m {} --dport {port}", word(protocol)))
    }

    /// Goes on in a chain, or ends with a target and its options.
    pub fn jump(self, target: impl std::fmt::Display) -> String {
        self.end(format_args!("-j {target}"))
    }

    /// Goes on in a chain, and does not come back to this one.
    pub fn goto(self, chain: impl std::fmt::Display) -> String {
        self.end(format_args!("-g {chain}"))
    }

    fn part(mut self, text: std::fmt::Arguments<'_>) -> Self {
        // Writing to a string cannot fail.
        write!(self.rest, "{text} ").ok();
        self
    }

    fn end(self, text: std::fmt::Arguments<'_>) -> String {
        let Self {
            source,
            destination,
            interface,
            rest,
        } = self;
        format!("{source}{destination}{interface}{rest}{text}")
    }
}

/// How iptables calls a protocol.
pub fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

fn whole_address(family: Family) -> &'static str {
    match family {
        Family::V4 => "255.255.255.255",
        Family::V6 => "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    }
}

/// The target that refuses: a reset for TCP, port unreachable for the rest.
pub fn reject(protocol: Option<Protocol>, family: Family) -> &'static str {
    match (protocol, family) {
        (Some(Protocol::Tcp), _) => "REJECT --reject-with tcp-reset",
        (_, Family::V4) => "REJECT --reject-with icmp-port-unreachable",
        (_, Family::V6) => "REJECT --reject-with icmp6-port-unreachable",
    }
}
