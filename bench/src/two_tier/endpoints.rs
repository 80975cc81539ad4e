//! Endpoints that answer on open connections, in processes of their own.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use testbed::Member;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::connections::REQUEST;
use crate::Failure;
use crate::process::Measured;

/// Connections that wait for their acceptance; the clients open one after the other.
const BACKLOG: u32 = 128;
/// Output of a process that accepts connections.
const LISTENING: &str = "listening";

/// Flags of `bench two-tier-endpoint`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of the endpoint: its answer to each byte
    #[arg(long)]
    number: u8,
    /// Address and port, which other processes of the same endpoint may share
    #[arg(long)]
    address: SocketAddr,
}

/// Serves connections until the process is killed.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    netlink::rlimit::raise_open_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = listen(flags.address)?;
        println!("{LISTENING}");
        let error = accept(flags.number, &listener).await;
        Err(format!(
            "endpoint {} accepts no further connections: {error}",
            flags.number
        )
        .into())
    })
}

/// Starts the processes of an endpoint, and waits until they listen.
pub(super) fn start(
    member: &Member,
    number: u8,
    address: SocketAddr,
    processes: usize,
) -> Result<Vec<Measured>, Failure> {
    (0..processes)
        .map(|_| start_process(member, number, address))
        .collect()
}

fn start_process(member: &Member, number: u8, address: SocketAddr) -> Result<Measured, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("two-tier-endpoint")
        .arg(format!("--number={number}"))
        .arg(format!("--address={address}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = member.spawn(&mut command)?;
    let stdout = child.stdout.take().ok_or("no pipe")?;
    let process = Measured::new(format!("endpoint {number}"), child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.trim_end() == LISTENING {
        Ok(process)
    } else {
        Err(format!("endpoint {number} does not listen at {address}; its error precedes").into())
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The kernel spreads connections over the processes that share the port.
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until that fails.
async fn accept(number: u8, listener: &TcpListener) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(answer(number, stream));
            }
            Err(error) => return error,
        }
    }
}

/// Answers each byte with the number of the endpoint.
async fn answer(number: u8, mut stream: TcpStream) {
    let mut request = REQUEST;
    while let Ok(1) = stream.read(&mut request).await {
        if stream.write_all(&[number]).await.is_err() {
            return;
        }
    }
}
