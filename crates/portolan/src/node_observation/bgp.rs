//! BGP sessions, by their TCP connections.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use explain::observation::{BgpSession, TransportProtocol};

use super::gap::ReadFailure;
use super::listeners::owners;
use super::processes::Process;
use super::sockets::{self, Socket};

/// Port of BGP.
const BGP_PORT: u16 = 179;
/// Maximum number of connections that are read.
const CONNECTIONS_MAX: usize = 1_000;
const ESTABLISHED: &str = "established";
/// States of a session that is open, or that is being opened. Others belong to former connections.
const STATES: [&str; 3] = [ESTABLISHED, "syn-sent", "syn-received"];

/// Reads the sessions of the node.
///
/// # Errors
///
/// A [`ReadFailure`] if the sockets cannot be read.
pub(super) fn read(processes: &[Process]) -> Result<Vec<BgpSession>, ReadFailure> {
    let is_session = |socket: &Socket| {
        socket.protocol == TransportProtocol::Tcp
            && (socket.local.port() == BGP_PORT || socket.remote.port() == BGP_PORT)
            && STATES.contains(&socket.state.name())
    };
    let directory = Path::new("/proc/thread-self/net");
    let (connections, _) = sockets::read(directory, CONNECTIONS_MAX, is_session)?;
    let inodes: HashSet<u64> = connections.iter().map(|socket| socket.inode).collect();
    let owners = owners(processes, &inodes);
    let program = |socket: &Socket| {
        let owner = owners
            .get(&socket.inode)
            .and_then(|position| processes.get(*position));
        owner.map(|process| process.program.clone())
    };
    Ok(sessions(&connections, program))
}

/// Returns one session for each peer. An open connection counts more than one that is being opened.
fn sessions(connections: &[Socket], program: impl Fn(&Socket) -> Option<String>) -> Vec<BgpSession> {
    let mut by_peer: BTreeMap<IpAddr, BgpSession> = BTreeMap::new();
    for connection in connections {
        let peer = connection.remote.ip().to_canonical();
        let session = BgpSession {
            peer,
            state: connection.state.name().to_owned(),
            program: program(connection),
        };
        if session.state == ESTABLISHED {
            by_peer.insert(peer, session);
        } else {
            by_peer.entry(peer).or_insert(session);
        }
    }
    by_peer.into_values().collect()
}

#[cfg(test)]
mod tests;
