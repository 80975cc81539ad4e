//! Frontends whose connections this node forwards, as the kernel holds them. The announcer reads them.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink::nftables::{Element, Nftables, ReadError};
use netlink::tcp;
use plan::Family;

use super::error::TwoTierError;
use super::rules::{TABLE, frontends, table_family};
use super::state::HashInput;

/// Returns the address and port of each TCP frontend with two-tier forwarding in the network namespace of the calling
/// thread. Without tables, there are none: in other proxy modes, and without Services that request it.
///
/// # Errors
///
/// A [`TwoTierError`] if the kernel does not list the tables.
pub fn forwarded_tcp_frontends() -> Result<BTreeSet<SocketAddr>, TwoTierError> {
    let mut nftables = Nftables::open().map_err(TwoTierError::Nftables)?;
    let mut found = BTreeSet::new();
    let read = |element: Element<'_>| tcp_frontend(element.key);
    for family in [Family::V4, Family::V6].map(table_family) {
        for input in HashInput::ALL {
            match nftables.elements_of_family(family, TABLE, frontends(input), read) {
                Ok(elements) => found.extend(elements.into_iter().flatten()),
                Err(ReadError::Socket { source, .. }) if is_missing(&source) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}

fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

/// Reads a key of [`super::rules::frontend_bytes`]; `None` for other protocols.
fn tcp_frontend(key: &[u8]) -> Option<SocketAddr> {
    let (rest, port) = key.split_last_chunk::<4>()?;
    let (address, protocol) = rest.split_last_chunk::<4>()?;
    let address = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    let port = u16::from_be_bytes([port[0], port[1]]);
    (protocol[0] == tcp::PROTOCOL).then(|| SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests;
