//! The sockets of the echo server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::object::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Settings;
use super::http::{self, Opening};

/// Connections at the same time, on all ports: below the usual limit of 1024 descriptors.
const CONNECTIONS_MAX: usize = 900;
/// A client that has not said anything for this long gets the line unasked: it may be waiting for it.
const FIRST_WORD_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection without traffic is closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest head of a request, as of other servers.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Pause after a failed accept, most often for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves all ports until the process ends; returns when one of them cannot be had.
pub(super) async fn serve(settings: Settings) -> io::Result<()> {
    let settings = Arc::new(settings);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut tasks = tokio::task::JoinSet::new();
    for &(protocol, port) in &settings.ports {
        let settings = Arc::clone(&settings);
        match protocol {
            Protocol::Udp => {
                let socket = bind_udp(port).await.map_err(|e| at(port, e))?;
                tasks.spawn(answer_datagrams(settings, socket, port));
            }
            Protocol::Tcp | Protocol::Sctp => {
                let listener = bind_tcp(port).await.map_err(|e| at(port, e))?;
                tasks.spawn(accept(settings, listener, port, Arc::clone(&connections)));
            }
        }
    }
    println!("echo: {} answers on {:?}", settings.pod, settings.ports);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

async fn accept(settings: Arc<Settings>, listener: TcpListener, port: u16, connections: Arc<Semaphore>) {
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("echo: accepting on port {port}: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let settings = Arc::clone(&settings);
        tokio::spawn(async move {
            if let Err(error) = converse(&settings, stream, client, port).await {
                eprintln!("echo: {client} on port {port}: {error}");
            }
            drop(permit);
        });
    }
}

/// One connection, from its first bytes to its end.
async fn converse(
    settings: &Settings,
    mut stream: TcpStream,
    client: SocketAddr,
    port: u16,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let answer = settings.answer(Protocol::Tcp, port, client);
    let mut read = Vec::new();
    if timeout(FIRST_WORD_TIMEOUT, stream.read_buf(&mut read))
        .await
        .is_ok_and(|r| matches!(r, Ok(0)))
    {
        return Ok(());
    }
    if http::opening(&read) == Opening::Http {
        return converse_http(&answer, stream, read).await;
    }
    // Once for what was said already, or for silence; then once for each further piece.
    let line = format!("{answer}\n");
    loop {
        stream.write_all(line.as_bytes()).await?;
        read.clear();
        match timeout(IDLE_TIMEOUT, stream.read_buf(&mut read)).await {
            Err(_) | Ok(Ok(0)) => return Ok(()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

async fn converse_http(
    answer: &serde_json::Value,
    mut stream: TcpStream,
    mut read: Vec<u8>,
) -> io::Result<()> {
    loop {
        let head = loop {
            if let Some(head) = http::head(&read) {
                break head;
            }
            if read.len() > HEAD_BYTES_MAX {
                let refusal = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                return stream.write_all(refusal.as_bytes()).await;
            }
            match timeout(IDLE_TIMEOUT, stream.read_buf(&mut read)).await {
                Err(_) | Ok(Ok(0)) => return Ok(()),
                Ok(result) => result?,
            };
        };
        let mut body = answer.clone();
        body["method"] = head.method.as_str().into();
        body["path"] = head.target.as_str().into();
        let text = http::answer(&head, &format!("{body}\n"));
        stream.write_all(text.as_bytes()).await?;
        if !head.keep_alive {
            return stream.shutdown().await;
        }
        read.drain(..head.bytes);
    }
}

async fn answer_datagrams(settings: Arc<Settings>, socket: UdpSocket, port: u16) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // Errors here are ICMP answers to earlier datagrams: their client has gone.
        let Ok((_, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let line = format!("{}\n", settings.answer(Protocol::Udp, port, client));
        if let Err(error) = socket.send_to(line.as_bytes(), client).await {
            eprintln!("echo: answering {client} on UDP port {port}: {error}");
        }
    }
}

/// Both families on one socket; where the kernel has no IPv6, IPv4.
async fn bind_tcp(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if lacks_ipv6(&error) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        bound => bound,
    }
}

async fn bind_udp(port: u16) -> io::Result<UdpSocket> {
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if lacks_ipv6(&error) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        bound => bound,
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

fn at(port: u16, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("port {port}: {error}"))
}
