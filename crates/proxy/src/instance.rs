//! At most one proxy in a network namespace: two would write the same rules in turn, without end.
//!
//! An abstract Unix socket is the lock. Its name belongs to the network namespace, as the rules do, and the kernel
//! releases it with the process.

use std::io;

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// Name of the socket.
const NAME: &str = "\0portolan-proxy";
/// User whose processes can write rules.
const ROOT: u32 = 0;

/// Another proxy runs in this network namespace. A retry helps when it has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another Portolan proxy{} runs in this network namespace, and both would write the same rules; stop one of them",
    .process.map(|id| format!(" (process {id})")).unwrap_or_default()
)]
pub struct AnotherProxy {
    /// Process ID, if it is visible in this PID namespace.
    pub process: Option<i32>,
}

/// Lock that a proxy holds until it exits.
#[derive(Debug)]
pub struct InstanceGuard {
    /// `None` if a process that cannot be a proxy holds the name.
    _listener: Option<UnixListener>,
}

impl InstanceGuard {
    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// [`AnotherProxy`] if a process of root, or of this user, holds it. Processes of other users cannot write rules,
    /// and cannot prevent the start.
    pub async fn acquire() -> Result<Self, AnotherProxy> {
        let error = match UnixListener::bind(NAME) {
            Ok(listener) => {
                return Ok(Self {
                    _listener: Some(listener),
                });
            }
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::AddrInUse
            && let Some(holder) = holder().await
        {
            return Err(holder);
        }
        tracing::warn!(%error, "no lock against another proxy in this network namespace");
        Ok(Self { _listener: None })
    }
}

/// Returns the proxy that holds the lock.
async fn holder() -> Option<AnotherProxy> {
    let credentials = match UnixStream::connect(NAME).await {
        Ok(stream) => stream.peer_cred().ok()?,
        // Only the queue of a process that does not accept connections fills up.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Some(AnotherProxy { process: None });
        }
        Err(_) => return None,
    };
    let may_write_rules = [ROOT, geteuid().as_raw()].contains(&credentials.uid());
    may_write_rules.then(|| AnotherProxy {
        process: credentials.pid().filter(|id| *id > 0),
    })
}

#[cfg(test)]
mod tests;
