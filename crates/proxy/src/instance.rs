//! At most one proxy in a network namespace. Two proxies would overwrite each other's rules without end.
//!
//! An abstract Unix socket is the lock. Its name belongs to the network namespace, as the rules do, and the kernel
//! releases it with the process.

use std::io;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// Name of the socket.
const NAME: &str = "\0portolan-proxy";
/// Pause after a failure to accept a connection.
const ACCEPT_RETRY_PERIOD: Duration = Duration::from_secs(1);
/// User whose processes can write rules.
const ROOT: u32 = 0;
/// Bit of `CAP_NET_ADMIN`, which the writer of rules needs.
const NET_ADMIN: u64 = 1 << 12;

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
    /// Task that holds the socket; `None` if a process that cannot be a proxy holds the name.
    _holding: Option<JoinSet<()>>,
}

impl InstanceGuard {
    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// [`AnotherProxy`] if a process of root, or of this user, holds it. Processes of other users cannot write rules,
    /// and cannot prevent the start. The same is true of root without `CAP_NET_ADMIN`, as in a Pod with the network of the
    /// node.
    pub async fn acquire() -> Result<Self, AnotherProxy> {
        let error = match UnixListener::bind(NAME) {
            Ok(listener) => {
                let mut holding = JoinSet::new();
                holding.spawn(accept_all(listener));
                return Ok(Self {
                    _holding: Some(holding),
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
        Ok(Self { _holding: None })
    }
}

/// Accepts and closes connections, so that the queue of the socket does not fill up.
async fn accept_all(listener: UnixListener) {
    loop {
        if let Err(error) = listener.accept().await {
            tracing::debug!(%error, "connection to the lock not accepted");
            tokio::time::sleep(ACCEPT_RETRY_PERIOD).await;
        }
    }
}

/// Returns the proxy that holds the lock.
async fn holder() -> Option<AnotherProxy> {
    // The queue of a proxy never fills up, because it accepts connections.
    let stream = UnixStream::connect(NAME).await.ok()?;
    let credentials = stream.peer_cred().ok()?;
    let process = credentials.pid().filter(|id| *id > 0);
    let is_user = [ROOT, geteuid().as_raw()].contains(&credentials.uid());
    let may_write_rules = is_user && !process.is_some_and(cannot_write_rules);
    may_write_rules.then_some(AnotherProxy { process })
}

/// Returns true if this process has `CAP_NET_ADMIN` and the other process lacks it. An exited process, whose socket a
/// third process holds, counts as one without it.
fn cannot_write_rules(process: i32) -> bool {
    has_net_admin("self") == Some(true) && has_net_admin(&process.to_string()) != Some(true)
}

/// Returns true if a process has `CAP_NET_ADMIN`; `None` if it does not exist or is hidden.
fn has_net_admin(process: &str) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(text.trim(), 16).ok()?;
    Some(effective & NET_ADMIN != 0)
}

#[cfg(test)]
mod tests;
