//! Takeover by a successor process of this node, which waits for the port of the probes.
//!
//! A starting process grants no votes for a fencing interval, because it has no record of the votes of its predecessor.
//! A predecessor that exits by shutdown reports the time until which other nodes may use its votes. It sends the
//! report over an abstract Unix socket to the process that waits for its port. It closes the connection when the port
//! is free. A predecessor that is killed may have left a report ([`super::standing_report`]). A report is valid for a
//! fencing interval from a time at which the predecessor ran. A third process that had the port in this interval has
//! granted no vote. A node that was always alone needs no report ([`crate::election`]).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use netlink::clock::since_boot;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UdpSocket, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use super::AnnouncerError;
use super::standing_report::predecessor_ended;
use crate::{FENCING_INTERVAL, Time};

#[cfg(test)]
mod tests;

/// Time between two attempts to bind the port while the predecessor runs.
const WAIT_PERIOD: Duration = Duration::from_millis(100);
/// Time between two attempts after the report of the predecessor, which is about to exit.
const TAKEOVER_PERIOD: Duration = Duration::from_millis(2);
/// Timeout of the exchange of a report on this host.
const REPORT_TIMEOUT: Duration = Duration::from_millis(100);

/// The bound port.
#[derive(Debug)]
pub(super) struct BoundPort {
    pub(super) socket: UdpSocket,
    /// Time until which votes of the predecessor may be in use, if it reported that.
    pub(super) votes_until: Option<Time>,
}

/// Report of a predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PredecessorReport {
    /// Time at which the predecessor ran.
    as_of: Time,
    votes_until: Time,
}

/// Binds the port of the probes. With `waits`, a predecessor process may have it, and its exit is awaited.
///
/// # Errors
/// The port cannot be bound, or another process has it and `waits` is false.
pub(super) async fn bind(address: SocketAddr, waits: bool) -> Result<BoundPort, AnnouncerError> {
    let mut seen_at = since_boot();
    if let Some(socket) = try_bind(address, waits).await? {
        return Ok(BoundPort {
            socket,
            votes_until: None,
        });
    }
    tracing::info!(%address, "probe port in use; waiting for the exit of the other process");
    let listener = UnixListener::bind(socket_name(address))
        .inspect_err(|error| tracing::debug!(%error, "socket for the report of the predecessor not bound"))
        .ok();
    let receiving = receive(listener.as_ref());
    tokio::pin!(receiving);
    let ending = killed(address, listener.is_some());
    tokio::pin!(ending);
    let mut report: Option<PredecessorReport> = None;
    let mut predecessor = None;
    loop {
        let now = since_boot();
        match report {
            Some(_) => port_released(&mut predecessor).await,
            // The time of the report is that of the round before: this process may have been frozen since the
            // predecessor ended.
            None => tokio::select! {
                biased;
                (votes_until, connection) = &mut receiving => {
                    report = Some(PredecessorReport { as_of: seen_at, votes_until });
                    predecessor = Some(connection);
                }
                () = &mut ending => report = Some(PredecessorReport { as_of: seen_at, votes_until: seen_at }),
                () = sleep(WAIT_PERIOD) => seen_at = now,
            },
        }
        if let Some(socket) = try_bind(address, true).await? {
            return Ok(BoundPort {
                socket,
                votes_until: report.and_then(|report| report.votes_until(since_boot())),
            });
        }
        // A predecessor that does not exit grants votes no more, but another process may.
        if report.is_some_and(|report| report.votes_until(since_boot()).is_none()) {
            sleep(WAIT_PERIOD).await;
        }
    }
}

impl PredecessorReport {
    /// Returns the reported time, while the report is valid.
    fn votes_until(&self, now: Time) -> Option<Time> {
        (now.saturating_sub(self.as_of) < FENCING_INTERVAL).then_some(self.votes_until)
    }
}

/// Binds the port; `None` if another process has it and `waits` is true.
async fn try_bind(address: SocketAddr, waits: bool) -> Result<Option<UdpSocket>, AnnouncerError> {
    match UdpSocket::bind(address).await {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if waits && error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(source) => Err(AnnouncerError::Listen { address, source }),
    }
}

/// Waits until the predecessor closes the connection, which it does when it has released the port. Without a
/// connection, waits for [`TAKEOVER_PERIOD`].
async fn port_released(predecessor: &mut Option<UnixStream>) {
    match predecessor.take() {
        Some(mut connection) => {
            let mut ignored = [0; 8];
            // The attempt to bind the port shows the outcome. Earlier versions close the connection before the port.
            timeout(REPORT_TIMEOUT, connection.read(&mut ignored)).await.ok();
        }
        None => sleep(TAKEOVER_PERIOD).await,
    }
}

/// Reports the end of the votes of this process to a waiting successor. Returns the connection to it, if there is
/// one. It has to stay open until the port is released.
pub(super) async fn report(address: SocketAddr, votes_until: Time) -> Option<UnixStream> {
    let remaining = votes_until.saturating_sub(since_boot());
    let nanoseconds = u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX);
    let sending = async {
        let mut stream = UnixStream::connect(socket_name(address)).await?;
        stream.write_all(&nanoseconds.to_be_bytes()).await?;
        Ok::<_, io::Error>(stream)
    };
    match timeout(REPORT_TIMEOUT, sending).await {
        Ok(Ok(stream)) => {
            tracing::info!("successor informed");
            return Some(stream);
        }
        Ok(Err(error)) => tracing::debug!(%error, "no waiting successor"),
        Err(_) => tracing::debug!("report not read by the successor"),
    }
    None
}

/// Waits until the predecessor is killed with a valid report. Only the process that receives reports does so; for
/// others it never resolves.
async fn killed(address: SocketAddr, receives_reports: bool) {
    if !receives_reports {
        return std::future::pending().await;
    }
    predecessor_ended(address).await;
    tracing::info!("predecessor exited; no other node uses its votes");
}

/// Waits for a report. Returns the time until which votes may be in use, and the connection. Never resolves without a
/// socket.
async fn receive(listener: Option<&UnixListener>) -> (Time, UnixStream) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match accept(listener).await {
            Ok(Some(received)) => return received,
            Ok(None) => tracing::debug!("report of another user's process ignored"),
            Err(error) => {
                tracing::debug!(%error, "report of the predecessor not read");
                sleep(WAIT_PERIOD).await;
            }
        }
    }
}

/// Accepts a connection and reads its report; `None` if its process belongs to another user.
async fn accept(listener: &UnixListener) -> io::Result<Option<(Time, UnixStream)>> {
    let (mut stream, _) = listener.accept().await?;
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    timeout(REPORT_TIMEOUT, stream.read_exact(&mut bytes))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)??;
    let remaining = Duration::from_nanos(u64::from_be_bytes(bytes));
    Ok(Some((since_boot() + remaining, stream)))
}

/// Returns the name of the abstract socket, which belongs to the network namespace as the port does.
fn socket_name(address: SocketAddr) -> String {
    format!("\0portolan-announcer/{address}")
}
