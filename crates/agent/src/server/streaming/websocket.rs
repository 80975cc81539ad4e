//! Commands and tunnels over WebSocket.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use streams::channels::{self, Encoding};
use streams::protocol::{CommandProtocol, Stream, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::client_streams::{ClientStreams, Outgoing, finish_within};
use super::command::Command;
use super::{MESSAGES_WAITING_MAX, PING_PERIOD, READ_BYTES_MAX};

/// Longest message and frame of a client.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes that wait until the client reads them: a message, and responses to pings. Beyond, a response replaces the one
/// before it (RFC 6455, section 5.5.3). Without the limit, a client that sends pings and reads nothing occupies any
/// memory.
const WRITE_BUFFER_BYTES_MAX: usize = 256 << 10;
/// Time in which the client closes the connection after the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a tunnel that wait for each direction.
const TUNNEL_BYTES_MAX: usize = 64 << 10;

pub(super) type Sink<S> = SplitSink<WebSocketStream<S>, Message>;
pub(super) type Source<S> = SplitStream<WebSocketStream<S>>;

/// Serves a command.
pub(super) async fn serve_command<S>(io: S, protocol: CommandProtocol, command: Command)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, source) = accept(io).await;
    let (input, input_of_command) = mpsc::channel(MESSAGES_WAITING_MAX);
    let (sizes, sizes_of_command) = watch::channel(None);
    let (output, output_of_command) = mpsc::channel(MESSAGES_WAITING_MAX);
    let (present, gone) = oneshot::channel();
    let has_input = command.options.has_input;
    let mut sent: Vec<Stream> = command.options.streams().collect();
    sent.retain(|stream| *stream != Stream::Input);
    let first = sent.first().copied();
    sent.push(Stream::Status);
    let receiver = Receiver {
        encoding: protocol.encoding,
        input: has_input.then_some(input),
        sizes,
        _present: present,
    };
    let reading = tokio::spawn(receiver.run(source));
    let writing = tokio::spawn(send_all(sink, protocol.encoding, sent, output_of_command));
    // As upstream: an empty message signals that the streams are open.
    let greeting = (first.unwrap_or(Stream::Status), Bytes::new());
    let streams = ClientStreams {
        input: has_input.then_some(input_of_command),
        sizes: sizes_of_command,
        output: output.clone(),
        gone,
    };
    if output.send(greeting).await.is_ok() {
        let result = command.run(streams).await;
        let status = if protocol.has_status {
            result.status()
        } else {
            result.text()
        };
        if !status.is_empty() && output.send((Stream::Status, status.into())).await.is_err() {
            tracing::debug!("client disconnected before the status of its command");
        }
    }
    drop(output);
    // Tasks do not outlive the permit of the session.
    let tasks = [writing.abort_handle(), reading.abort_handle()];
    finish_within(CLOSE_TIMEOUT, async { tokio::join!(writing, reading) }).await;
    for task in tasks {
        task.abort();
    }
}

/// Returns the close frame of a complete session. kubectl reports other ends as errors.
pub(super) fn normal_closure() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: Utf8Bytes::default(),
    }))
}

/// Accepts a WebSocket connection after its upgrade, and returns its two directions.
pub(super) async fn accept<S>(io: S) -> (Sink<S>, Source<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config))
        .await
        .split()
}

/// Receiver of a client's messages.
struct Receiver {
    encoding: Encoding,
    input: Option<mpsc::Sender<Bytes>>,
    sizes: watch::Sender<Option<TerminalSize>>,
    /// Dropped when the client has disconnected.
    _present: oneshot::Sender<()>,
}

impl Receiver {
    async fn run<S: AsyncRead + AsyncWrite + Unpin>(mut self, mut source: Source<S>) {
        while let Some(Ok(message)) = source.next().await {
            let content = match message {
                Message::Binary(content) => content,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                _ => continue,
            };
            match self.encoding.decode(&content) {
                channels::Message::Data(Stream::Input, bytes) => {
                    let Some(input) = &self.input else { continue };
                    if input.send(bytes).await.is_err() {
                        // The command reads no more input.
                        self.input = None;
                    }
                }
                channels::Message::Closed(Stream::Input) => self.input = None,
                channels::Message::Data(Stream::Resize, bytes) => {
                    if let Some(size) = TerminalSize::parse(&bytes) {
                        self.sizes.send_replace(Some(size));
                    }
                }
                _ => {}
            }
        }
    }
}

async fn send_all<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: Sink<S>,
    encoding: Encoding,
    sent: Vec<Stream>,
    mut output: mpsc::Receiver<Outgoing>,
) {
    let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let outgoing = tokio::select! {
            outgoing = output.recv() => outgoing.map(Some),
            _ = pings.tick() => Some(None),
        };
        let message = match outgoing {
            None => break,
            Some(None) => Message::Ping(Bytes::new()),
            Some(Some((stream, _))) if !sent.contains(&stream) => continue,
            Some(Some((stream, bytes))) => encode_message(encoding, stream.channel(), &bytes),
        };
        if let Err(error) = sink.send(message).await {
            tracing::debug!(%error, "output of a command not sent");
            return;
        }
    }
    if let Err(error) = sink.send(normal_closure()).await {
        tracing::debug!(%error, "WebSocket connection not closed");
    }
}

/// Returns the message with bytes of a channel.
pub(super) fn encode_message(encoding: Encoding, channel: u8, bytes: &[u8]) -> Message {
    let content = encoding.encode_channel(channel, bytes);
    match (encoding, std::str::from_utf8(&content)) {
        (Encoding::Base64, Ok(text)) => Message::text(text),
        _ => Message::Binary(content),
    }
}

/// Returns the bytes that binary messages carry as a connection, and a future that copies them.
pub(super) fn tunnel<S>(io: S) -> (DuplexStream, impl Future<Output = ()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (near, far) = tokio::io::duplex(TUNNEL_BYTES_MAX);
    (near, async move {
        let (sink, source) = accept(io).await;
        let (reading, writing) = tokio::io::split(far);
        let result = tokio::select! {
            result = receive_tunnel(source, writing) => result,
            result = send_tunnel(sink, reading) => result,
        };
        if let Err(error) = result {
            tracing::debug!(%error, "tunnel over WebSocket ended");
        }
    })
}

async fn receive_tunnel<S: AsyncRead + AsyncWrite + Unpin>(
    mut source: Source<S>,
    mut writing: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(message) = source.next().await {
        match message.map_err(io::Error::other)? {
            Message::Binary(bytes) => writing.write_all(&bytes).await?,
            Message::Close(_) => break,
            _ => {}
        }
    }
    writing.shutdown().await
}

async fn send_tunnel<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: Sink<S>,
    mut reading: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES_MAX];
    loop {
        let length = reading.read(&mut buffer).await?;
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return sink.send(normal_closure()).await.map_err(io::Error::other);
        }
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        sink.send(message).await.map_err(io::Error::other)?;
    }
}

#[cfg(test)]
mod tests;
