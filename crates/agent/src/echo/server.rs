//! Sockets of the echo server: TCP, UDP and HTTP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use api::object::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Settings;
use super::http::{self, DetectedProtocol};

/// Concurrent connections on all ports: below the usual limit of 1024 file descriptors.
const CONNECTIONS_MAX: usize = 900;
/// Time without bytes after which a client gets the line: it may wait for the server to send first.
const INITIAL_DATA_TIMEOUT: Duration = Duration::from_millis(500);
/// Time without traffic after which a connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest request head, as of other servers.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Delay after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves all ports until the process exits.
///
/// # Errors
/// Errors of `bind(2)` for one of the ports.
pub(super) async fn serve(settings: Settings) -> io::Result<()> {
    let settings = Arc::new(settings);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut tasks = tokio::task::JoinSet::new();
    for &(protocol, port) in &settings.ports {
        let settings = Arc::clone(&settings);
        match protocol {
            Protocol::Udp => {
                let socket = bind_udp(port).await.map_err(|error| with_port(port, error))?;
                tasks.spawn(serve_datagrams(settings, socket, port));
            }
            Protocol::Tcp | Protocol::Sctp => {
                let listener = bind_tcp(port).await.map_err(|error| with_port(port, error))?;
                tasks.spawn(accept(settings, listener, port, Arc::clone(&connections)));
            }
        }
    }
    println!("echo: {} answers on {:?}", settings.pod, settings.ports);
    close_stdin()?;
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
            if let Err(error) = serve_connection(&settings, stream, client, port).await {
                eprintln!("echo: {client} on port {port}: {error}");
            }
            drop(permit);
        });
    }
}

/// Serves one TCP connection.
async fn serve_connection(
    settings: &Settings,
    mut stream: TcpStream,
    client: SocketAddr,
    port: u16,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let response = settings.response(Protocol::Tcp, port, client);
    let mut read = Vec::new();
    if timeout(INITIAL_DATA_TIMEOUT, stream.read_buf(&mut read))
        .await
        .is_ok_and(|read| matches!(read, Ok(0)))
    {
        return Ok(());
    }
    if http::detect_protocol(&read) == DetectedProtocol::Http {
        return serve_http(&response, stream, read).await;
    }
    // One line for the initial bytes, or for their absence; then one for each further read.
    let line = format!("{response}\n");
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

async fn serve_http(
    response: &serde_json::Value,
    mut stream: TcpStream,
    mut read: Vec<u8>,
) -> io::Result<()> {
    loop {
        let head = loop {
            if let Some(head) = http::parse_head(&read) {
                break head;
            }
            if read.len() > HEAD_BYTES_MAX {
                let rejection = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                return stream.write_all(rejection.as_bytes()).await;
            }
            match timeout(IDLE_TIMEOUT, stream.read_buf(&mut read)).await {
                Err(_) | Ok(Ok(0)) => return Ok(()),
                Ok(result) => result?,
            };
        };
        let mut body = response.clone();
        body["method"] = head.method.as_str().into();
        body["path"] = head.target.as_str().into();
        let text = http::response(&head, &format!("{body}\n"));
        stream.write_all(text.as_bytes()).await?;
        if !head.is_keep_alive {
            return stream.shutdown().await;
        }
        read.drain(..head.bytes);
    }
}

async fn serve_datagrams(settings: Arc<Settings>, socket: UdpSocket, port: u16) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // Errors here are ICMP errors for earlier datagrams, whose client has disconnected.
        let Ok((_, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let line = format!("{}\n", settings.response(Protocol::Udp, port, client));
        if let Err(error) = socket.send_to(line.as_bytes(), client).await {
            eprintln!("echo: answering {client} on UDP port {port}: {error}");
        }
    }
}

/// Binds one socket for IPv6 and IPv4. A kernel without IPv6 gets an IPv4 socket.
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

/// Replaces the standard input by `/dev/null`, which signals to the sandbox that the ports are open.
fn close_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: dup2 takes numbers; both descriptors are open.
    if unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

fn with_port(port: u16, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("port {port}: {error}"))
}
