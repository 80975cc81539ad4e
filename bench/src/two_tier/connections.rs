//! Connections that stay open, in the process that holds them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::environment::TIMEOUT;

/// Timeout of a new connection with its first exchange.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the answers on all connections. TCP retransmits after 200 ms, then with doubled delays.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest timeout of one answer, if others took all of the time.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Successful connections in a row after which a Service counts as served: enough to reach each node by its path.
const PROBES: usize = 100;
/// Interval between attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between reports of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(1);
/// Request; the answer is the number of the endpoint.
pub(super) const REQUEST: [u8; 1] = [b'?'];

/// An open connection.
struct OpenConnection {
    stream: TcpStream,
    /// Number of the endpoint.
    endpoint: u8,
}

impl OpenConnection {
    /// Connects, with one exchange, in the namespace of the current thread.
    fn open(service: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&service, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        stream.write_all(&REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        let [endpoint] = answer;
        Ok(Self { stream, endpoint })
    }

    fn is_answered(&mut self, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let mut answer = [0];
        let received = self
            .stream
            .set_read_timeout(Some(timeout.max(ANSWER_TIMEOUT_MIN)))
            .and_then(|()| self.stream.read_exact(&mut answer));
        received.is_ok() && answer == [self.endpoint]
    }
}

/// Connects until [`PROBES`] connections in a row succeed.
pub(super) fn wait_for(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    let mut successes = 0;
    while successes < PROBES {
        match OpenConnection::open(service) {
            Ok(_) => successes += 1,
            Err(error) if Instant::now() > deadline => {
                return Err(format!("{service} is not served by all nodes: {error}").into());
            }
            Err(_) => {
                successes = 0;
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

/// Open connections to a Service.
pub(super) struct Connections(Vec<OpenConnection>);

/// Result of an exchange on all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    /// Connections whose endpoint lives.
    pub(super) examined: usize,
    /// Examined connections without the answer of their endpoint.
    pub(super) lost: usize,
}

impl Connections {
    /// Opens connections one after the other, in the namespace of the current thread. Reports each second the number
    /// that is open.
    pub(super) fn open(
        service: SocketAddr,
        count: usize,
        mut report_open: impl FnMut(usize),
    ) -> Result<Self, Failure> {
        let mut open = Vec::with_capacity(count);
        let mut reported = Instant::now();
        for number in 1..=count {
            let connection = OpenConnection::open(service);
            open.push(connection.map_err(|error| format!("connection {number} to {service}: {error}"))?);
            if reported.elapsed() >= PROGRESS_PERIOD {
                report_open(number);
                reported = Instant::now();
            }
        }
        Ok(Self(open))
    }

    /// Returns the number of connections of each endpoint.
    pub(super) fn by_endpoint(&self, endpoints: usize) -> Vec<usize> {
        let mut counts = vec![0; endpoints];
        for connection in &self.0 {
            if let Some(count) = counts.get_mut(usize::from(connection.endpoint)) {
                *count += 1;
            }
        }
        counts
    }

    /// Exchanges a byte on all connections whose endpoint lives, and keeps those that the same endpoint answers. All
    /// requests are sent first, so the timeout holds for all answers together.
    pub(super) fn check(&mut self, is_alive: impl Fn(u8) -> bool) -> Checked {
        let Self(open) = self;
        open.retain(|connection| is_alive(connection.endpoint));
        let examined = open.len();
        let sent: Vec<bool> = open
            .iter_mut()
            .map(|connection| connection.stream.write_all(&REQUEST).is_ok())
            .collect();
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut sent = sent.into_iter();
        open.retain_mut(|connection| sent.next() == Some(true) && connection.is_answered(deadline));
        Checked {
            examined,
            lost: examined - open.len(),
        }
    }
}
