//! The resolvers of `/etc/resolv.conf` (resolv.conf(5)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::wire::Name;

/// The port that resolvers listen on.
const PORT: u16 = 53;
/// Resolvers that are used; more are not asked by glibc either, but `forward` of CoreDNS takes 15.
const UPSTREAMS_MAX: usize = 15;

/// The file of resolvers cannot be read. Trying again helps once somebody has repaired it.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the resolvers in {}: {source}", path.display())]
pub struct ResolvConfError {
    path: PathBuf,
    source: io::Error,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// The resolvers.
    pub upstreams: Vec<SocketAddr>,
    /// The domains of the search list.
    pub search: Vec<Name>,
}

/// Reads a file.
pub fn read_resolv_conf(path: &Path) -> Result<ResolvConf, ResolvConfError> {
    let text = std::fs::read_to_string(path).map_err(|source| ResolvConfError {
        path: path.into(),
        source,
    })?;
    Ok(ResolvConf {
        upstreams: nameservers(&text),
        search: search(&text),
    })
}

/// The addresses in `nameserver` lines; a line that holds none is passed over, as the C library does.
pub(super) fn nameservers(text: &str) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        match words.next().map(str::parse::<IpAddr>) {
            Some(Ok(address)) => found.push(SocketAddr::new(address, PORT)),
            _ => tracing::warn!(line, "no address in this line of resolv.conf"),
        }
    }
    found.truncate(UPSTREAMS_MAX);
    found
}

/// The domains of the last `search` or `domain` line, as the C library takes them.
pub(super) fn search(text: &str) -> Vec<Name> {
    let lines = text.lines().map(str::split_whitespace);
    let mut domains = lines.filter_map(|mut words| match words.next() {
        Some("search" | "domain") => Some(words),
        _ => None,
    });
    let names = domains.next_back().into_iter().flatten().map(Name::from_text);
    names
        .filter_map(Result::ok)
        .filter(|name| *name != Name::ROOT)
        .collect()
}
