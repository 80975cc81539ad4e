//! Standing report of a running process to the successor that waits for its port: no other node uses a vote of this
//! process.
//!
//! The successor of a killed process with a standing report takes over at once. A process withdraws its report before
//! it sends a vote to another node. The kernel closes the connection when the process ends. If it closes before a
//! withdrawal, the report stays valid. Only the process that receives the reports of [`super::standby`] connects, so
//! one process has the report.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, sleep_until};

#[cfg(test)]
mod tests;

/// The report is valid.
const VALID: u8 = 1;
/// The report is withdrawn; the connection closes.
const WITHDRAWN: u8 = 0;
/// Time between two attempts to listen, and to connect.
const RETRY_PERIOD: Duration = Duration::from_millis(100);

/// The side of the running process.
#[derive(Debug)]
pub(super) struct StandingReport {
    address: SocketAddr,
    listener: Option<UnixListener>,
    listens_from: Instant,
    successor: Option<Successor>,
}

/// A process that waits.
#[derive(Debug)]
struct Successor {
    stream: UnixStream,
    /// The report is valid.
    is_reported: bool,
}

impl StandingReport {
    /// Creates the report of the process with the port `address`. Nothing is reported yet.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            listener: None,
            listens_from: Instant::now(),
            successor: None,
        }
    }

    /// Waits until a successor connects or ends. Cancel safe.
    pub(super) async fn changed(&mut self) {
        loop {
            if let Some(successor) = &self.successor {
                successor.ended().await;
                self.successor = None;
                return;
            }
            let Some(listener) = &self.listener else {
                sleep_until(self.listens_from).await;
                self.listen();
                continue;
            };
            match accept(listener).await {
                Ok(Some(stream)) => {
                    self.successor = Some(Successor {
                        stream,
                        is_reported: false,
                    });
                    return;
                }
                Ok(None) => tracing::debug!("connection of another user's process closed"),
                Err(error) => {
                    tracing::debug!(%error, "connection of the successor not accepted");
                    sleep(RETRY_PERIOD).await;
                }
            }
        }
    }

    /// Reports that no other node uses a vote of this process, or withdraws the report. Returns false if the report may
    /// still be valid although it should not be: then no vote may be sent.
    pub(super) fn update(&mut self, is_free_of_votes: bool) -> bool {
        let Some(successor) = &mut self.successor else {
            return true;
        };
        match (successor.is_reported, is_free_of_votes) {
            (false, true) => {
                // After a failure, the next update tries again.
                successor.is_reported = successor.stream.try_write(&[VALID]).is_ok();
                true
            }
            (true, false) => match successor.stream.try_write(&[WITHDRAWN]) {
                Ok(_) => {
                    self.successor = None;
                    true
                }
                Err(error) => {
                    tracing::debug!(%error, "report to the successor not withdrawn; no votes are sent");
                    // The end of the successor is an input of its own.
                    false
                }
            },
            (false, false) | (true, true) => true,
        }
    }

    fn listen(&mut self) {
        // The name may belong to a predecessor that is about to exit.
        match UnixListener::bind(socket_name(self.address)) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                tracing::debug!(%error, "socket for a successor not bound yet");
                self.listens_from = Instant::now() + RETRY_PERIOD;
            }
        }
    }
}

impl Successor {
    /// Waits until the process closes the connection. Cancel safe.
    async fn ended(&self) {
        let mut ignored = [0; 16];
        loop {
            let is_open = match self.stream.readable().await {
                Ok(()) => match self.stream.try_read(&mut ignored) {
                    Ok(0) => false,
                    Ok(_) => true,
                    Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                },
                Err(_) => false,
            };
            if !is_open {
                return;
            }
        }
    }
}

/// Accepts a connection; `None` if its process belongs to another user.
async fn accept(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    let (stream, _) = listener.accept().await?;
    Ok(is_of_this_user(&stream)?.then_some(stream))
}

/// Completes when the process with the port ends while its report is valid.
pub(super) async fn predecessor_ended(address: SocketAddr) {
    loop {
        match follow_report(address).await {
            Ok(true) => return,
            Ok(false) => tracing::debug!("report withdrawn by the predecessor"),
            // The predecessor does not listen yet, or is of a version without standing reports.
            Err(error) => tracing::trace!(%error, "no report of the predecessor"),
        }
        sleep(RETRY_PERIOD).await;
    }
}

/// Follows the report of the process with the port. Returns true if the connection ends while the report is valid.
async fn follow_report(address: SocketAddr) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket_name(address)).await?;
    if !is_of_this_user(&stream)? {
        return Ok(false);
    }
    let mut is_valid = false;
    loop {
        let mut byte = [WITHDRAWN];
        if stream.read(&mut byte).await? == 0 {
            return Ok(is_valid);
        }
        is_valid = byte == [VALID];
    }
}

fn is_of_this_user(stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw())
}

/// Returns the name of the abstract socket, which belongs to the network namespace as the port does.
fn socket_name(address: SocketAddr) -> String {
    format!("\0portolan-announcer/{address}/votes")
}
