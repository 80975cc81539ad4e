//! Kernel parameters and counters, from `/proc`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Maximum number of bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of links whose parameters are read.
const LINKS_MAX: usize = 1_000;
/// Parameters of the host.
const NAMES: [&str; 29] = [
    "net.bridge.bridge-nf-call-ip6tables",
    "net.bridge.bridge-nf-call-iptables",
    "net.core.somaxconn",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.forwarding",
    "net.ipv4.conf.all.route_localnet",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.all.send_redirects",
    "net.ipv4.conf.default.forwarding",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_nonlocal_bind",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.vs.conntrack",
    "net.ipv6.conf.all.disable_ipv6",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.default.forwarding",
    "net.ipv6.neigh.default.gc_thresh3",
    "net.netfilter.nf_conntrack_buckets",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_be_liberal",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
];
/// Parameters of each link, below `net.ipv4.conf`.
const LINK_NAMES: [&str; 2] = ["rp_filter", "forwarding"];
/// Counters of `/proc/net/netstat`.
const COUNTERS: [(&str, &str); 5] = [
    ("TcpExt", "IPReversePathFilter"),
    ("TcpExt", "ListenDrops"),
    ("TcpExt", "ListenOverflows"),
    ("IpExt", "InNoRoutes"),
    ("TcpExt", "PAWSEstab"),
];

/// Reads the parameters of the host and of its links below `/proc/sys`. Parameters that the kernel lacks are left out.
pub(super) fn read(links: &[String]) -> BTreeMap<String, String> {
    read_below(Path::new("/proc/sys"), links)
}

/// Reads counters of the network namespace.
pub(super) fn read_counters() -> Option<BTreeMap<String, u64>> {
    let text = read_text(Path::new("/proc/thread-self/net/netstat"))?;
    Some(parse_counters(&text))
}

/// Returns the first and last local port of outgoing connections.
pub(super) fn local_port_range(sysctls: &BTreeMap<String, String>) -> Option<[u16; 2]> {
    let text = sysctls.get("net.ipv4.ip_local_port_range")?;
    let mut ports = text.split_ascii_whitespace().map(str::parse);
    match (ports.next(), ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last)), None) => Some([first, last]),
        _ => None,
    }
}

/// Returns the ranges of ports that outgoing connections do not use.
pub(super) fn reserved_ports(sysctls: &BTreeMap<String, String>) -> Option<Vec<[u16; 2]>> {
    let text = sysctls.get("net.ipv4.ip_local_reserved_ports")?;
    let ranges = text.split(',').map(str::trim).filter(|range| !range.is_empty());
    ranges
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some([first.parse().ok()?, last.parse().ok()?])
        })
        .collect()
}

fn read_below(root: &Path, links: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in NAMES {
        let value = read_text(&root.join(name.replace('.', "/")));
        found.extend(value.map(|value| (name.to_owned(), value)));
    }
    for link in links.iter().take(LINKS_MAX) {
        for name in LINK_NAMES {
            let value = read_text(&root.join("net/ipv4/conf").join(link).join(name));
            let name = format!("net.ipv4.conf.{}.{name}", link.replace('.', "/"));
            found.extend(value.map(|value| (name, value)));
        }
    }
    found
}

/// Parses pairs of lines: `TcpExt: NAME …` and `TcpExt: VALUE …`.
fn parse_counters(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut names = names.split_ascii_whitespace();
        let mut values = values.split_ascii_whitespace();
        let group = names.next().and_then(|group| group.strip_suffix(':'));
        if group.is_none() || values.next().and_then(|group| group.strip_suffix(':')) != group {
            continue;
        }
        for (name, value) in names.zip(values) {
            let is_wanted = COUNTERS
                .iter()
                .any(|requested| group == Some(requested.0) && name == requested.1);
            if let (true, Some(group), Ok(value)) = (is_wanted, group, value.parse()) {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
    }
    counters
}

/// Reads a text without the blank at its end; `None` if it is absent, unreadable or not UTF-8.
pub(super) fn read_text(path: &Path) -> Option<String> {
    text_of(File::open(path).ok()?)
}

/// Reads an open file as [`read_text`] does.
pub(super) fn text_of(file: File) -> Option<String> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned())
}

/// Returns the number of virtual servers of IPVS; 0 if the kernel has no IPVS. `None` if it is not permitted to read it.
pub(super) fn ipvs_services() -> Option<u64> {
    match fs::read_to_string("/proc/thread-self/net/ip_vs") {
        Ok(text) => Some(count_ipvs_services(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
    }
}

/// Counts the lines of virtual servers: `TCP  0A600001:0050 rr`. Lines of real servers begin with an arrow.
fn count_ipvs_services(text: &str) -> u64 {
    let protocols = ["TCP", "UDP", "SCTP", "FWM"];
    let is_service = |line: &&str| {
        let mut fields = line.split_ascii_whitespace();
        let is_protocol = fields.next().is_some_and(|first| protocols.contains(&first));
        is_protocol && fields.next().is_some()
    };
    text.lines().filter(is_service).count() as u64
}

#[cfg(test)]
mod tests;
