//! Forwarded ports (kubelet's `pkg/kubelet/cri/streaming/portforward`): the client opens two streams for each connection,
//! one for errors and one for data.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netlink::route::NetworkNamespace;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::READ_BYTES_MAX;
use super::spdy::{Server, SpdyStream, StreamSender};

/// Time in which the second stream of a connection must be opened (upstream's `DefaultStreamCreationTimeout`).
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest dial of a port in the Pod.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// First stream of a connection.
struct Half {
    stream: SpdyStream,
    is_data: bool,
    deadline: Instant,
}

/// Forwards connections until the client is gone.
pub(super) async fn serve<S>(io: S, network: NetworkNamespace, pod: String)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (present, mut gone) = oneshot::channel();
    let mut server = Server::start(io, present);
    let (network, pod) = (Arc::new(network), Arc::<str>::from(pod));
    let mut waiting: HashMap<String, Half> = HashMap::new();
    // Dropped with this function, which ends the connections. Streams have a limit, so connections have one.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = server.opened.recv() => stream,
            Some(_) = connections.join_next() => continue,
            _ = &mut gone => None,
        };
        let Some(stream) = stream else { break };
        let now = Instant::now();
        waiting.retain(|_, half| half.deadline > now);
        let Some((id, port, is_data)) = parse(&stream) else {
            refuse(
                &stream.sender,
                "expected the headers streamType, port and requestID",
            )
            .await;
            continue;
        };
        match waiting.remove(&id) {
            Some(other) if other.is_data != is_data => {
                let (data, error) = match is_data {
                    true => (stream, other.stream),
                    false => (other.stream, stream),
                };
                connections.spawn(forward(Arc::clone(&network), Arc::clone(&pod), port, data, error));
            }
            _ => {
                let deadline = now + PAIR_TIMEOUT;
                let half = Half {
                    stream,
                    is_data,
                    deadline,
                };
                waiting.insert(id, half);
            }
        }
    }
    drop(waiting);
    connections.shutdown().await;
    server.finish().await;
}

/// Request ID, port and type of a stream.
fn parse(stream: &SpdyStream) -> Option<(String, u16, bool)> {
    let headers = &stream.headers;
    let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let is_data = match headers.get("streamtype")?.as_str() {
        "data" => true,
        "error" => false,
        _ => return None,
    };
    // Old clients send no ID; their streams belong to the connection before it.
    let id = headers.get("requestid").cloned().unwrap_or_default();
    Some((id, port, is_data))
}

async fn refuse(sender: &StreamSender, message: &str) {
    if let Err(error) = sender.send(message.as_bytes(), true).await {
        tracing::debug!(%error, "error of a forwarded port not sent");
    }
}

/// Forwards one connection.
async fn forward(
    network: Arc<NetworkNamespace>,
    pod: Arc<str>,
    port: u16,
    data: SpdyStream,
    error: SpdyStream,
) {
    let message = match dial(network, port).await {
        Ok(connection) => {
            copy(connection, data).await;
            String::new()
        }
        Err(cause) => {
            refuse(&data.sender, "").await;
            format!("error forwarding port {port} to pod {pod}: {cause}")
        }
    };
    refuse(&error.sender, &message).await;
}

/// Copies both directions until both have ended.
async fn copy(connection: TcpStream, data: SpdyStream) {
    let SpdyStream {
        mut received, sender, ..
    } = data;
    let (mut read, mut write) = connection.into_split();
    let to_pod = async {
        while let Some(bytes) = received.recv().await {
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The Pod may have closed the connection already.
        write.shutdown().await.ok();
    };
    let to_client = async {
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            let length = read.read(&mut buffer).await.unwrap_or_default();
            let bytes = buffer.get(..length).unwrap_or_default();
            if sender.send(bytes, bytes.is_empty()).await.is_err() || bytes.is_empty() {
                return;
            }
        }
    };
    tokio::join!(to_pod, to_client);
}

/// Connects to a port of the loopback link in the Pod, with IPv4 first.
async fn dial(network: Arc<NetworkNamespace>, port: u16) -> io::Result<TcpStream> {
    let dialed = tokio::task::spawn_blocking(move || {
        let entered = network.enter(|| {
            let connect =
                |ip: IpAddr| std::net::TcpStream::connect_timeout(&SocketAddr::new(ip, port), DIAL_TIMEOUT);
            connect(Ipv4Addr::LOCALHOST.into()).or_else(|first| {
                connect(Ipv6Addr::LOCALHOST.into()).map_err(|second| {
                    io::Error::other(format!(
                        "failed to connect to localhost:{port} inside the pod, IPv4: {first}, IPv6: {second}"
                    ))
                })
            })
        });
        entered.map_err(io::Error::other)?
    });
    let connection = dialed.await.map_err(io::Error::other)??;
    connection.set_nonblocking(true)?;
    connection.set_nodelay(true)?;
    TcpStream::from_std(connection)
}
