//! Connections that say nothing, beside those who ask.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::{Builder, Runtime};

use super::asking::{A_CODE_OK, Answer, question};
use super::{Place, cluster_names};
use crate::Failure;
use crate::percentiles::Percentiles;

/// New connections that ask one question each.
const ASKING: usize = 200;
/// Connections from one source address: the kernel gives out some 28,000 ports for each.
const CONNECTIONS_A_SOURCE: usize = 10_000;
/// How long a new connection may take to be served.
const PATIENCE: Duration = Duration::from_secs(10);

/// Flags of `bench dns idle`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Connections that say nothing
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
}

/// Runs the case. The server closes what was idle for ten seconds, so everything is asked before that; it is told how
/// many connections are still open in the end.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    let names = cluster_names(place)?;
    let before = place.server.resident_mib()?;
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let started = Instant::now();
    let idle = place.node()?.enter(|| {
        (0..flags.connections)
            .map(|number| connect(&runtime, place.listen, number / CONNECTIONS_A_SOURCE))
            .collect::<Result<Vec<_>, _>>()
    })??;
    println!(
        "{} connections in {:.2} s",
        idle.len(),
        started.elapsed().as_secs_f64()
    );
    let beside = place.server.resident_mib()?;
    println!("resident memory: {before:.1} MiB before, {beside:.1} MiB with them");
    let mut latencies = Vec::with_capacity(ASKING);
    for name in names.iter().cycle().take(ASKING) {
        let asked = Instant::now();
        let stream = place.node()?.enter(|| connect(&runtime, place.listen, 0))??;
        ask(stream, name)?;
        latencies.push(asked.elapsed());
    }
    let latencies = Percentiles::of(latencies).ok_or("nothing was asked")?;
    println!(
        "{ASKING} new connections with a question each: p50 {:.2} ms, max {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(100),
    );
    let open = idle.iter().filter(|stream| is_open(stream)).count();
    println!(
        "{open} of them are still open after {:.2} s",
        started.elapsed().as_secs_f64()
    );
    place.measure_rate(&names)
}

/// A connection whose source is a loopback address: other clients may not have so many.
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
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn ask(mut stream: TcpStream, name: &str) -> Result<(), Failure> {
    let message = question(1, name);
    let length = u16::try_from(message.len())?.to_be_bytes();
    stream.write_all(&[&length, message.as_slice()].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    let answer = Answer::read(&answer).ok_or("a malformed answer")?;
    match answer.code == A_CODE_OK && answer.addresses.len() == 1 {
        true => Ok(()),
        false => Err("a wrong answer".into()),
    }
}

/// Whether the server has not closed a connection on which it has sent nothing.
fn is_open(stream: &TcpStream) -> bool {
    let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_err_and(would_block)
}
