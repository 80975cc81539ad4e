//! Idle TCP connections beside active clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::{Builder, Runtime};

use super::queries::{RCODE_NO_ERROR, Response, query};
use super::{Context, cluster_names};
use crate::Failure;
use crate::percentiles::Percentiles;

/// Number of new connections with one query each.
const NEW_CONNECTIONS: usize = 200;
/// Maximum number of connections from one source address, which has about 28,000 ephemeral ports.
const CONNECTIONS_PER_SOURCE: usize = 10_000;
/// Timeout of a query on a new connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of `bench dns idle`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of idle connections
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
}

/// Runs the case. The server closes connections after ten idle seconds, so all queries are sent before that.
/// At the end the number of open connections is printed.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    let names = cluster_names(context)?;
    let before = context.server.resident_mib()?;
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let started = Instant::now();
    let idle = context.node()?.enter(|| {
        (0..flags.connections)
            .map(|number| connect(&runtime, context.listen, number / CONNECTIONS_PER_SOURCE))
            .collect::<Result<Vec<_>, _>>()
    })??;
    println!(
        "{} connections in {:.2} s",
        idle.len(),
        started.elapsed().as_secs_f64()
    );
    let beside = context.server.resident_mib()?;
    println!("resident memory: {before:.1} MiB before, {beside:.1} MiB with them");
    let mut latencies = Vec::with_capacity(NEW_CONNECTIONS);
    for name in names.iter().cycle().take(NEW_CONNECTIONS) {
        let started_at = Instant::now();
        let stream = context.node()?.enter(|| connect(&runtime, context.listen, 0))??;
        send_query(stream, name)?;
        latencies.push(started_at.elapsed());
    }
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "{NEW_CONNECTIONS} new connections with one query each: p50 {:.2} ms, max {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(100),
    );
    let open = idle.iter().filter(|stream| is_open(stream)).count();
    println!(
        "{open} of them are still open after {:.2} s",
        started.elapsed().as_secs_f64()
    );
    context.measure_rate(&names)
}

/// Connects from a loopback address, for which the server has no limit per client.
fn connect(runtime: &Runtime, server: SocketAddr, source: usize) -> Result<TcpStream, Failure> {
    let last = u8::try_from(source + 1)?;
    let source = SocketAddr::from((Ipv4Addr::new(127, 0, 1, last), 0));
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(source)?;
        socket.connect(server).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn send_query(mut stream: TcpStream, name: &str) -> Result<(), Failure> {
    let message = query(1, name);
    let length = u16::try_from(message.len())?.to_be_bytes();
    stream.write_all(&[&length, message.as_slice()].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    let response = Response::parse(&message).ok_or("malformed response")?;
    if response.rcode == RCODE_NO_ERROR && response.addresses.len() == 1 {
        return Ok(());
    }
    Err("wrong response".into())
}

/// Returns true if the server has neither closed the connection nor sent data.
fn is_open(stream: &TcpStream) -> bool {
    let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_err_and(would_block)
}
