//! Forwarded ports (kubelet's `pkg/kubelet/cri/streaming/portforward`): the client opens two streams for each
//! connection, one for errors and one for data.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use netlink::route::NetworkNamespace;
use streams::spdy::{Headers, STREAMS_MAX};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::READ_BYTES_MAX;
use super::spdy::{Server, StreamSender};

/// Time in which the second stream of a connection must be opened (upstream's `DefaultStreamCreationTimeout`).
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest dial of a port in the Pod.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections at once, together with those whose second stream is not open yet. The limit of streams alone does not
/// bound them, since the client may end its streams before the connection has ended.
const CONNECTIONS_MAX: usize = STREAMS_MAX / 2;
/// Longest request ID. Clients send small numbers.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// One of the two streams of a connection.
struct ConnectionStream {
    kind: StreamKind,
    received: mpsc::Receiver<Bytes>,
    reset: oneshot::Receiver<()>,
    sender: StreamSender,
    deadline: Instant,
}

/// Kind of a stream of a forwarded connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    Data,
    Error,
}

/// Parsed headers of a stream.
struct StreamHeaders {
    request_id: String,
    port: u16,
    kind: StreamKind,
}

/// Forwards connections until the client has disconnected.
pub(super) async fn serve<S>(io: S, network: NetworkNamespace, pod: String)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (present, mut gone) = oneshot::channel();
    let mut server = Server::start(io, present);
    let (network, pod) = (Arc::new(network), Arc::<str>::from(pod));
    let mut waiting: HashMap<String, ConnectionStream> = HashMap::new();
    // Dropped with this function, which ends the connections.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = server.opened.recv() => stream,
            Some(_) = connections.join_next() => continue,
            _ = &mut gone => None,
        };
        let Some(stream) = stream else { break };
        let now = Instant::now();
        waiting.retain(|_, pending| pending.deadline > now);
        let Some(headers) = parse(&stream.headers) else {
            let message = "expected the headers streamType, port and requestID";
            send_error(&stream.sender, message).await;
            continue;
        };
        let kind = headers.kind;
        let pending = ConnectionStream {
            kind,
            received: stream.received,
            reset: stream.reset,
            sender: stream.sender,
            deadline: now + PAIR_TIMEOUT,
        };
        match waiting.remove(&headers.request_id) {
            Some(other) if other.kind != kind => {
                let (data, error) = match kind {
                    StreamKind::Data => (pending, other.sender),
                    StreamKind::Error => (other, pending.sender),
                };
                let (network, pod) = (Arc::clone(&network), Arc::clone(&pod));
                connections.spawn(forward(network, pod, headers.port, data, error));
            }
            _ if waiting.len() + connections.len() >= CONNECTIONS_MAX => {
                // Bytes of a data stream would reach the program that connected.
                let message = match kind {
                    StreamKind::Data => "",
                    StreamKind::Error => "too many forwarded connections",
                };
                send_error(&pending.sender, message).await;
            }
            _ => {
                waiting.insert(headers.request_id, pending);
            }
        }
    }
    drop(waiting);
    connections.shutdown().await;
    server.finish().await;
}

/// Parses the headers of a stream.
fn parse(headers: &Headers) -> Option<StreamHeaders> {
    let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let kind = match headers.get("streamtype")?.as_str() {
        "data" => StreamKind::Data,
        "error" => StreamKind::Error,
        _ => return None,
    };
    // Old clients send no ID; their streams belong to the connection before it.
    let request_id = headers.get("requestid").cloned().unwrap_or_default();
    (request_id.len() <= REQUEST_ID_BYTES_MAX).then_some(StreamHeaders {
        request_id,
        port,
        kind,
    })
}

async fn send_error(sender: &StreamSender, message: &str) {
    if let Err(error) = sender.send(message.as_bytes(), true).await {
        tracing::debug!(%error, "error of a forwarded port not sent");
    }
}

/// Forwards one connection, until both directions have ended or the client resets the stream of data.
async fn forward(
    network: Arc<NetworkNamespace>,
    pod: Arc<str>,
    port: u16,
    data: ConnectionStream,
    error: StreamSender,
) {
    let ConnectionStream {
        received,
        reset,
        sender,
        ..
    } = data;
    let copied = async {
        let connection = dial(&network, port).await?;
        copy(connection, received, &sender).await;
        Ok::<_, io::Error>(())
    };
    let result = tokio::select! {
        result = copied => result,
        _ = reset => Ok(()),
    };
    let message = match result {
        Ok(()) => String::new(),
        Err(cause) => {
            send_error(&sender, "").await;
            format!("error forwarding port {port} to pod {pod}: {cause}")
        }
    };
    send_error(&error, &message).await;
}

/// Copies both directions until both have ended.
async fn copy(connection: TcpStream, mut received: mpsc::Receiver<Bytes>, sender: &StreamSender) {
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
pub(super) async fn dial(network: &Arc<NetworkNamespace>, port: u16) -> io::Result<TcpStream> {
    let first = match connect(network, (Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    let second = connect(network, (Ipv6Addr::LOCALHOST, port).into()).await;
    second.map_err(|second| {
        io::Error::other(format!(
            "failed to connect to localhost:{port} inside the pod, IPv4: {first}, IPv6: {second}"
        ))
    })
}

/// Connects from the namespace. Only the creation of the socket needs a thread, since a socket stays in the namespace
/// that created it. A Pod that does not answer therefore holds no thread.
async fn connect(network: &Arc<NetworkNamespace>, address: SocketAddr) -> io::Result<TcpStream> {
    let network = Arc::clone(network);
    let creating = tokio::task::spawn_blocking(move || {
        network.enter(|| match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        })
    });
    let entered = creating.await.map_err(io::Error::other)?;
    let socket = entered.map_err(io::Error::other)??;
    let connection = timeout(DIAL_TIMEOUT, socket.connect(address)).await??;
    connection.set_nodelay(true)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
