//! Other processes of this host that serve addresses: predecessors and successors.
//!
//! Each process listens on an abstract Unix socket (unix(7)) without accepting anything. The socket belongs to the network
//! namespace, as the local addresses do. The kernel lists its name, and closes it with the process.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::{fs, io};

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::net::UnixStream;

/// Prefix of the names of the sockets; a contract between versions.
const PREFIX: &str = "portolan-edge-addresses/";
/// Sockets of the network namespace of the calling thread (`proc_pid_net(5)`).
const SOCKETS: &str = "/proc/thread-self/net/unix";

/// Mark of this process, which other processes find while this process runs.
#[derive(Debug)]
pub(super) struct ProcessMark {
    name: String,
    _listener: UnixListener,
}

impl ProcessMark {
    /// Sets the mark.
    ///
    /// # Errors
    /// The kernel provides no random numbers, or no socket.
    pub(super) fn set() -> io::Result<Self> {
        let mut number = [0; 8];
        SystemRandom::new()
            .fill(&mut number)
            .map_err(|_| io::Error::other("no random numbers"))?;
        let name = format!("{PREFIX}{:016x}", u64::from_be_bytes(number));
        let address = SocketAddr::from_abstract_name(&name)?;
        Ok(Self {
            _listener: UnixListener::bind_addr(&address)?,
            name,
        })
    }

    /// Returns true if another process of the user of this one has a mark.
    ///
    /// # Errors
    /// The kernel does not list its sockets.
    pub(super) async fn has_others(&self) -> io::Result<bool> {
        let own_user = user_of(&UnixStream::pair()?.0)?;
        for name in marks(&fs::read_to_string(SOCKETS)?).filter(|name| *name != self.name) {
            // The kernel reports the user of a listening process before the process accepts.
            match UnixStream::connect(format!("\0{name}")).await {
                Ok(stream) if user_of(&stream)? == own_user => return Ok(true),
                Ok(_) => tracing::debug!(name, "mark of another user's process ignored"),
                // Others filled the queue of connections, so the process exists.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => tracing::debug!(name, %error, "other process exited"),
            }
        }
        Ok(false)
    }
}

/// Returns the names of marks in a list of sockets. The kernel writes abstract names with an `@`.
fn marks(sockets: &str) -> impl Iterator<Item = &str> {
    let names = sockets.lines().filter_map(|line| line.split(' ').next_back());
    names
        .filter_map(|name| name.strip_prefix('@'))
        .filter(|name| name.starts_with(PREFIX))
}

fn user_of(stream: &UnixStream) -> io::Result<u32> {
    Ok(stream.peer_cred()?.uid())
}

#[cfg(test)]
mod tests;
