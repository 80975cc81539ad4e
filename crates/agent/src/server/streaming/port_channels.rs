//! Forwarded ports over WebSocket channels (kubelet's `pkg/kubelet/cri/streaming/portforward/websocket.go`): one connection
//! for each port of the query. The port with the index `i` has the channel `2 i` for data and `2 i + 1` for errors.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use netlink::route::NetworkNamespace;
use streams::channels::Encoding;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::tungstenite::Message;

use super::port_forward::dial;
use super::websocket::{Sink, Source, accept, encode_message, normal_closure};
use super::{MESSAGES_WAITING_MAX, PING_PERIOD, READ_BYTES_MAX};

/// Maximum number of ports of one session.
pub(super) const PORTS_MAX: usize = 64;

/// Message to the client: channel and bytes.
type Outgoing = (u8, Bytes);

/// Ports of a session, with the number of each data channel.
struct Port {
    number: u16,
    data: u8,
}

/// Returns the ports of a query; `None` unless there are 1 to [`PORTS_MAX`] valid ones.
pub(super) fn ports(query: &str) -> Option<Vec<u16>> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let values = pairs.filter(|(name, _)| *name == "port");
    let numbers = values.flat_map(|(_, value)| value.split(','));
    let parsed = numbers
        .take(PORTS_MAX + 1)
        .map(|number| number.parse::<u16>().ok().filter(|port| *port > 0));
    let ports = parsed.collect::<Option<Vec<u16>>>()?;
    (1..=PORTS_MAX).contains(&ports.len()).then_some(ports)
}

/// Forwards one connection to each port, until all have ended or the client has disconnected.
pub(super) async fn serve<S>(
    io: S,
    encoding: Encoding,
    network: NetworkNamespace,
    pod: String,
    numbers: Vec<u16>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, source) = accept(io).await;
    let (output, outgoing) = mpsc::channel(MESSAGES_WAITING_MAX);
    let network = Arc::new(network);
    // Dropped with this function, which ends the connections.
    let mut connections = JoinSet::new();
    let mut inputs = Vec::new();
    for (data, number) in (0..).step_by(2).zip(numbers) {
        let (input, received) = mpsc::channel(MESSAGES_WAITING_MAX);
        inputs.push(Some(input));
        let port = Port { number, data };
        connections.spawn(forward(
            Arc::clone(&network),
            pod.clone(),
            port,
            received,
            output.clone(),
        ));
    }
    drop(output);
    tokio::select! {
        // Ends when all connections have ended.
        () = send_all(sink, encoding, outgoing) => {}
        () = receive_all(source, encoding, inputs) => {}
    }
    connections.shutdown().await;
}

/// Forwards one connection, until the Pod has ended it.
async fn forward(
    network: Arc<NetworkNamespace>,
    pod: String,
    port: Port,
    received: mpsc::Receiver<Bytes>,
    output: mpsc::Sender<Outgoing>,
) {
    let Port { number, data } = port;
    let error = data + 1;
    // As upstream: the first message of each channel is the port.
    let greeting = Bytes::copy_from_slice(&number.to_le_bytes());
    for channel in [data, error] {
        if output.send((channel, greeting.clone())).await.is_err() {
            return;
        }
    }
    match dial(&network, number).await {
        Ok(connection) => copy(connection, received, data, &output).await,
        Err(cause) => {
            let message = format!("error forwarding port {number} to pod {pod}: {cause}");
            if output.send((error, message.into())).await.is_err() {
                tracing::debug!("client disconnected before the error of a forwarded port");
            }
        }
    }
}

/// Copies both directions until the Pod ends its own.
async fn copy(
    connection: TcpStream,
    mut received: mpsc::Receiver<Bytes>,
    data: u8,
    output: &mpsc::Sender<Outgoing>,
) {
    let (mut read, mut write) = connection.into_split();
    let to_pod = async {
        while let Some(bytes) = received.recv().await {
            if write.write_all(&bytes).await.is_err() {
                break;
            }
        }
        // Later bytes of the client are dropped: they must not delay those for other ports.
        received.close();
        // The Pod may still send.
        std::future::pending::<()>().await;
    };
    let to_client = async {
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            let length = read.read(&mut buffer).await.unwrap_or_default();
            let bytes = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
            if bytes.is_empty() || output.send((data, bytes)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = to_pod => {}
        () = to_client => {}
    }
}

/// Passes the messages of the client on, until it has disconnected.
async fn receive_all<S: AsyncRead + AsyncWrite + Unpin>(
    mut source: Source<S>,
    encoding: Encoding,
    mut inputs: Vec<Option<mpsc::Sender<Bytes>>>,
) {
    while let Some(Ok(message)) = source.next().await {
        let content = match message {
            Message::Binary(content) => content,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            _ => continue,
        };
        let Some((channel, bytes)) = encoding.decode_channel(&content) else {
            continue;
        };
        // Messages on channels of errors have no meaning.
        let input = inputs
            .get_mut(usize::from(channel / 2))
            .filter(|_| channel % 2 == 0);
        if let Some(slot) = input
            && let Some(input) = slot
            && input.send(bytes).await.is_err()
        {
            *slot = None;
        }
    }
}

async fn send_all<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: Sink<S>,
    encoding: Encoding,
    mut outgoing: mpsc::Receiver<Outgoing>,
) {
    let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            next = outgoing.recv() => match next {
                Some((channel, bytes)) => encode_message(encoding, channel, &bytes),
                None => break,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if let Err(error) = sink.send(message).await {
            tracing::debug!(%error, "bytes of a forwarded port not sent");
            return;
        }
    }
    if let Err(error) = sink.send(normal_closure()).await {
        tracing::debug!(%error, "WebSocket connection not closed");
    }
}

#[cfg(test)]
mod tests;
