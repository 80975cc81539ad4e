//! Connections that stay open while an address moves. Each exchange has to succeed.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink::route::Connection;
use testbed::Member;

use crate::Failure;

/// Address of the backend, outside of the cluster.
const BACKEND: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 203);
const BACKEND_PORT: u16 = 8080;
/// Number of connections.
const COUNT: usize = 20;
/// Timeout of an exchange. TCP retransmits after 200 ms, then with doubled delays.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between rounds of exchanges.
const PAUSE: Duration = Duration::from_millis(5);
/// Message of an exchange.
const MESSAGE: [u8; 64] = [b'.'; 64];

/// Starts an echo server outside of the cluster and returns its address.
pub(super) fn start_backend(outside: &Member) -> Result<IpAddr, Failure> {
    outside.enter(|| -> Result<(), Failure> {
        let mut connection = Connection::open()?;
        let link = connection.link_index(&"eth0".parse()?)?;
        connection.add_address(link, IpNet::new(BACKEND.into(), 24)?)?;
        let listener = TcpListener::bind((BACKEND, BACKEND_PORT))?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || echo(&stream));
            }
        });
        Ok(())
    })??;
    Ok(BACKEND.into())
}

fn echo(mut stream: &TcpStream) {
    let mut buffer = [0; 1024];
    while let Ok(bytes) = stream.read(&mut buffer) {
        // The client closed the connection.
        if bytes == 0 || stream.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}

/// Connects until the backend answers.
pub(super) fn wait_for(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + crate::environment::TIMEOUT;
    loop {
        match OpenConnections::open(service) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Open connections.
pub(super) struct OpenConnections(Vec<TcpStream>);

/// Statistics of open connections.
#[derive(Default)]
pub(super) struct ConnectionStats {
    count: usize,
    lost: Vec<LostConnection>,
    exchanges: usize,
    longest: Duration,
}

/// Lost connection.
struct LostConnection {
    /// Port of the client.
    port: Option<u16>,
    /// Time since the first round.
    after: Duration,
    was_closing: bool,
    error: std::io::Error,
}

impl LostConnection {
    fn new(stream: &TcpStream, start: Instant, was_closing: bool, error: std::io::Error) -> Self {
        Self {
            port: stream.local_addr().ok().map(|address| address.port()),
            after: start.elapsed(),
            was_closing,
            error,
        }
    }

    fn describe(&self, during: &str) -> String {
        let how = match self.error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer within {TIMEOUT:?}"),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!("reset ({})", self.error),
            _ => self.error.to_string(),
        };
        let when = if self.was_closing {
            "at its close"
        } else {
            "during an exchange"
        };
        let port = self.port.map_or("?".to_owned(), |port| port.to_string());
        format!(
            "connection lost during {during}: from port {port}, {when}, {:.2} s after the first round: {how}",
            self.after.as_secs_f64()
        )
    }
}

impl OpenConnections {
    /// Opens the connections, with one exchange on each, in the namespace of the current thread.
    pub(super) fn open(service: SocketAddr) -> Result<Self, Failure> {
        let open = |_| {
            let stream = TcpStream::connect_timeout(&service, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(&stream)?;
            Ok(stream)
        };
        Ok(Self((0..COUNT).map(open).collect::<Result<_, std::io::Error>>()?))
    }

    /// Exchanges messages on each connection in turn until `is_over`, and then closes them.
    pub(super) fn exchange_until(self, is_over: &AtomicBool) -> ConnectionStats {
        let mut stats = ConnectionStats {
            count: self.0.len(),
            ..ConnectionStats::default()
        };
        let first = Instant::now();
        let mut open = self.0;
        loop {
            let is_last = is_over.load(Ordering::Acquire);
            open.retain(|stream| {
                let begin = Instant::now();
                let result = exchange(stream);
                stats.exchanges += 1;
                stats.longest = stats.longest.max(begin.elapsed());
                let loss = result
                    .err()
                    .map(|error| LostConnection::new(stream, first, false, error));
                let is_lost = loss.is_some();
                stats.lost.extend(loss);
                !is_lost
            });
            if is_last {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        for stream in &open {
            let loss = close(stream)
                .err()
                .map(|error| LostConnection::new(stream, first, true, error));
            stats.lost.extend(loss);
        }
        stats
    }
}

impl ConnectionStats {
    /// Prints each lost connection.
    pub(super) fn print_losses(&self, during: &str) {
        for loss in &self.lost {
            println!("{}", loss.describe(during));
        }
    }

    /// Sum of two statistics.
    pub(super) fn combined_with(mut self, other: Self) -> Self {
        self.lost.extend(other.lost);
        Self {
            count: self.count + other.count,
            lost: self.lost,
            exchanges: self.exchanges + other.exchanges,
            longest: self.longest.max(other.longest),
        }
    }

    /// Summary for a figure.
    pub(super) fn summary(&self) -> String {
        format!(
            "{} open connections, {} lost; {} exchanges, max {:.0} ms",
            self.count,
            self.lost.len(),
            self.exchanges,
            self.longest.as_secs_f64() * 1e3
        )
    }
}

fn exchange(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(&MESSAGE)?;
    let mut response = [0; MESSAGE.len()];
    stream.read_exact(&mut response)
}

/// Closes a connection in both directions.
fn close(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    match stream.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
