//! Rules as text in the notation of `iptables-save`, so that rules that are read back can be compared.

use std::fmt::Write;
use std::net::IpAddr;

use api::object::Protocol;
use ipnet::IpNet;
use plan::Family;

use super::context::PodMatch;

/// Longest comment that the kernel accepts, without its final zero.
const COMMENT_BYTES_MAX: usize = 255;
/// Bits of the random number that the kernel compares with the probability.
const PROBABILITY_BITS: u32 = 31;
/// Maximum number of parts into which one match of `xt_cluster` divides the sources.
const CLUSTER_NODES_MAX: usize = 32;

/// A rule without its chain. Its parts are printed in the order of `iptables-save`; matches in the order in which
/// they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    source: String,
    destination: String,
    interface: String,
    rest: String,
}

#[expect(
    clippy::wrong_self_convention,
    reason = "the methods add matches on source and destination, and convert nothing"
)]
impl Rule {
    /// Creates a rule that matches every packet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Matches packets from a range.
    pub(super) fn source(mut self, net: IpNet) -> Self {
        self.source = format!("-s {net} ");
        self
    }

    /// Matches packets that are not from a range.
    pub(super) fn not_source(mut self, net: IpNet) -> Self {
        self.source = format!("! -s {net} ");
        self
    }

    /// Matches packets to a range.
    pub(super) fn destination(mut self, net: IpNet) -> Self {
        self.destination = format!("-d {net} ");
        self
    }

    /// Matches packets that are not to a range.
    pub(super) fn not_destination(mut self, net: IpNet) -> Self {
        self.destination = format!("! -d {net} ");
        self
    }

    /// Matches packets to an address.
    pub(super) fn to(self, address: IpAddr) -> Self {
        self.destination(address.into())
    }

    /// Matches packets from Pods by one property.
    pub(super) fn from_pods(mut self, pods: &PodMatch) -> Self {
        match pods {
            PodMatch::Range(net) => self.source(*net),
            PodMatch::Interface(pattern) => {
                self.interface = format!("-i {pattern} ");
                self
            }
        }
    }

    /// Matches packets that lack one property of Pods.
    pub(super) fn not_from_pods(mut self, pods: &PodMatch) -> Self {
        match pods {
            PodMatch::Range(net) => self.not_source(*net),
            PodMatch::Interface(pattern) => {
                self.interface = format!("! -i {pattern} ");
                self
            }
        }
    }

    /// Matches a protocol.
    pub(super) fn protocol(self, protocol: Protocol) -> Self {
        self.part(format_args!("-p {}", protocol_name(protocol)))
    }

    /// Adds a comment.
    pub(super) fn comment(mut self, text: &str) -> Self {
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

    /// Adds a match as text.
    pub(super) fn matching(self, text: &str) -> Self {
        self.part(format_args!("-m {text}"))
    }

    /// Matches packets from an address of this node.
    pub(super) fn from_node(self) -> Self {
        self.matching("addrtype --src-type LOCAL")
    }

    /// Matches packets to an address of this node.
    pub(super) fn to_node(self) -> Self {
        self.matching("addrtype --dst-type LOCAL")
    }

    /// Matches one of `count` packets at random (IPT-04).
    pub(super) fn one_in(self, count: usize) -> Self {
        let steps = f64::from(1_u32 << PROBABILITY_BITS);
        let nearest = (steps / count as f64).round() / steps;
        self.part(format_args!(
            "-m statistic --mode random --probability {nearest:.11}"
        ))
    }

    /// Matches one of `count` sources by a hash of the address, which `seed` selects. Connections of one client match
    /// alike, on every node. The share is exact up to 32, and within 4 percent up to 1024; it is never below 1/1024.
    pub(super) fn one_source_in(self, count: usize, seed: u64) -> Self {
        let outer = count.div_ceil(CLUSTER_NODES_MAX).min(CLUSTER_NODES_MAX);
        let inner = (count + outer / 2) / outer.max(1);
        let rule = self.part_of_sources(outer, (seed >> 32) as u32);
        rule.part_of_sources(inner.min(CLUSTER_NODES_MAX), seed as u32)
    }

    /// Matches the first of `count` parts of the sources.
    fn part_of_sources(self, count: usize, seed: u32) -> Self {
        if count < 2 {
            return self;
        }
        self.part(format_args!(
            "-m cluster --cluster-local-nodemask 0x00000001 --cluster-total-nodes {count} --cluster-hash-seed {seed:#010x}"
        ))
    }

    /// Matches packets whose source entered a list at most this many seconds ago.
    pub(super) fn match_recent(self, list: impl std::fmt::Display, seconds: u32, family: Family) -> Self {
        let mask = whole_address(family);
        self.part(format_args!(
            "-m recent --rcheck --seconds {seconds} --reap --name {list} --mask {mask} --rsource"
        ))
    }

    /// Adds the source of the packet to a list.
    pub(super) fn update_recent(self, list: impl std::fmt::Display, family: Family) -> Self {
        let mask = whole_address(family);
        self.part(format_args!(
            "-m recent --set --name {list} --mask {mask} --rsource"
        ))
    }

    /// Matches a port. The match of the protocol has to precede.
    pub(super) fn port(self, protocol: Protocol, port: u16) -> Self {
        self.part(format_args!("-m {} --dport {port}", protocol_name(protocol)))
    }

    /// Matches consecutive ports. The match of the protocol has to precede.
    pub(super) fn ports(self, protocol: Protocol, first: u16, last: u16) -> Self {
        if first == last {
            return self.port(protocol, first);
        }
        self.part(format_args!(
            "-m {} --dport {first}:{last}",
            protocol_name(protocol)
        ))
    }

    /// Matches ICMP or ICMPv6.
    pub(super) fn icmp(self, family: Family) -> Self {
        self.part(format_args!(
            "-p {}",
            match family {
                Family::V4 => "icmp",
                Family::V6 => "ipv6-icmp",
            }
        ))
    }

    /// Matches echo requests. The match of the protocol has to precede.
    pub(super) fn echo_request(self, family: Family) -> Self {
        self.matching(match family {
            Family::V4 => "icmp --icmp-type 8",
            Family::V6 => "icmp6 --icmpv6-type 128",
        })
    }

    /// Matches packets from a range, beside another match of the source.
    pub(super) fn also_source(self, net: IpNet) -> Self {
        let (first, last) = (net.network(), net.broadcast());
        self.part(format_args!("-m iprange --src-range {first}-{last}"))
    }

    /// Finishes the rule with a jump to a chain or target.
    pub(super) fn jump(self, target: impl std::fmt::Display) -> String {
        self.end(format_args!("-j {target}"))
    }

    /// Finishes the rule with a goto: the packet does not return to this chain.
    pub(super) fn goto(self, chain: impl std::fmt::Display) -> String {
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

/// Returns the name of a protocol in iptables.
pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
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

/// Returns the target that rejects: a reset for TCP, port unreachable for other protocols.
pub(super) fn reject(protocol: Option<Protocol>, family: Family) -> &'static str {
    match (protocol, family) {
        (Some(Protocol::Tcp), _) => "REJECT --reject-with tcp-reset",
        (_, Family::V4) => "REJECT --reject-with icmp-port-unreachable",
        (_, Family::V6) => "REJECT --reject-with icmp6-port-unreachable",
    }
}
