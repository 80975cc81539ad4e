//! Resolvers and search list of `/etc/resolv.conf` (resolv.conf(5)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::wire::Name;

/// Port of DNS.
const PORT: u16 = 53;
/// Limit of resolvers. glibc uses 3, CoreDNS' `forward` 15.
const UPSTREAMS_MAX: usize = 15;

/// The file cannot be read. A retry can succeed after the file is corrected.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the resolvers in {}: {source}", path.display())]
pub struct ResolvConfError {
    path: PathBuf,
    source: io::Error,
}

/// Contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Addresses of the resolvers.
    pub upstreams: Vec<SocketAddr>,
    /// Domains of the search list.
    pub search: Vec<Name>,
}

/// Reads a file.
///
/// # Errors
///
/// Returns [`ResolvConfError`] if the file cannot be read. Malformed lines are skipped.
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

/// Returns the addresses of `nameserver` lines. Lines without an address are skipped, as in the C library.
pub(super) fn nameservers(text: &str) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        match words.next().map(str::parse::<IpAddr>) {
            Some(Ok(address)) => found.push(SocketAddr::new(address, PORT)),
            _ => tracing::warn!(line, "resolv.conf line without an address skipped"),
        }
    }
    found.truncate(UPSTREAMS_MAX);
    found
}

/// Returns the domains of the last `search` or `domain` line, as in the C library.
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
