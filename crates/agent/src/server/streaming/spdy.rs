//! Streams over SPDY, and commands over them.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use streams::protocol::{CommandProtocol, Stream, TerminalSize};
use streams::spdy::{Connection, Event, Headers, Role};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::client_streams::{ClientStreams, finish_within};
use super::command::Command;
use super::{MESSAGES_WAITING_MAX, PING_PERIOD, READ_BYTES_MAX};

/// Time in which the client opens the streams of a command (upstream's `DefaultStreamCreationTimeout`).
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which the client closes the connection after the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of received bytes of all streams that wait for their readers. The connection is not read beyond; a
/// frame always fits.
const RECEIVED_BYTES_MAX: usize = 1 << 20;
/// Maximum number of writes that wait.
const WRITES_WAITING_MAX: usize = 4;

/// Stream that the client opened.
pub(super) struct SpdyStream {
    /// Headers of the stream.
    pub headers: Headers,
    /// Received data; ends when the client sends no more.
    pub received: mpsc::Receiver<Bytes>,
    /// Resolves when the client ends the stream in both directions, or has disconnected.
    pub reset: oneshot::Receiver<()>,
    /// Sender of data.
    pub sender: StreamSender,
}

/// Sender of one stream.
pub(super) struct StreamSender {
    stream: u32,
    state: Arc<Mutex<Connection>>,
    writes: mpsc::Sender<Bytes>,
}

impl StreamSender {
    /// Sends data, and ends this direction if `is_last`.
    ///
    /// # Errors
    /// `BrokenPipe` if the connection has ended.
    pub(super) async fn send(&self, bytes: &[u8], is_last: bool) -> io::Result<()> {
        let output = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.send(self.stream, bytes, is_last);
            state.take_output()
        };
        let sent = self.writes.send(output).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Connection with its tasks.
pub(super) struct Server {
    /// Streams that the client opens.
    pub opened: mpsc::Receiver<SpdyStream>,
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

impl Server {
    /// Starts the tasks. `present` is dropped when the client has disconnected.
    pub(super) fn start<S>(io: S, present: oneshot::Sender<()>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(io);
        let (writes, pending) = mpsc::channel(WRITES_WAITING_MAX);
        let (streams, opened) = mpsc::channel(MESSAGES_WAITING_MAX);
        let state = Arc::new(Mutex::new(Connection::new(Role::Server)));
        let reader = FrameReader {
            state: Arc::clone(&state),
            writes: Some(writes),
            streams: Some(streams),
            received: HashMap::new(),
            budget: Arc::new(Semaphore::new(RECEIVED_BYTES_MAX)),
        };
        let (failed, write_failed) = oneshot::channel();
        let reading = tokio::spawn(async move {
            let _present = present;
            tokio::select! {
                result = reader.run(read) => if let Err(error) = result {
                    tracing::debug!(%error, "SPDY connection ended");
                },
                // A reader that waits for a full stream does not detect the end of the client.
                Ok(()) = write_failed => {}
            }
        });
        let writing = tokio::spawn(async move {
            if let Err(error) = write_all(write, pending, &state).await {
                tracing::debug!(%error, "SPDY frames not sent");
                // The reader may have ended already.
                failed.send(()).ok();
            }
        });
        Self {
            opened,
            reading,
            writing,
        }
    }

    /// Opens no more streams, sends all data, and waits until the client closes the connection.
    pub(super) async fn finish(self) {
        let Self {
            opened,
            reading,
            writing,
        } = self;
        drop(opened);
        // Tasks do not outlive the permit of the session.
        let tasks = [writing.abort_handle(), reading.abort_handle()];
        finish_within(CLOSE_TIMEOUT, writing).await;
        finish_within(CLOSE_TIMEOUT, reading).await;
        for task in tasks {
            task.abort();
        }
    }
}

/// Reader of frames. It passes data to the streams.
struct FrameReader {
    state: Arc<Mutex<Connection>>,
    /// `None` when no more streams are accepted: the writer ends with the last sender.
    writes: Option<mpsc::Sender<Bytes>>,
    /// `None` when no more streams are accepted.
    streams: Option<mpsc::Sender<SpdyStream>>,
    received: HashMap<u32, StreamReceiver>,
    /// Permits for bytes that wait for their readers.
    budget: Arc<Semaphore>,
}

/// Received bytes with their part of the budget.
struct PermittedBytes {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PermittedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PermittedBytes {
    /// Waits for a part of the budget. The bytes are copied, since a slice would keep its whole buffer in memory.
    async fn wait(budget: &Arc<Semaphore>, bytes: &[u8]) -> io::Result<Bytes> {
        let count = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let permit = Arc::clone(budget).acquire_many_owned(count).await;
        Ok(Bytes::from_owner(Self {
            bytes: bytes.to_vec(),
            _permit: permit.map_err(io::Error::other)?,
        }))
    }
}

/// Receiving side of a stream.
struct StreamReceiver {
    /// `None` when the client sends no more, or the stream is read no more.
    data: Option<mpsc::Sender<Bytes>>,
    /// Dropped when the client ends the stream in both directions.
    reset: oneshot::Sender<()>,
}

impl StreamReceiver {
    fn is_unused(&self) -> bool {
        self.reset.is_closed() && self.data.as_ref().is_none_or(mpsc::Sender::is_closed)
    }
}

impl FrameReader {
    async fn run(mut self, mut read: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            let closed = async {
                match &self.streams {
                    Some(streams) => streams.closed().await,
                    None => std::future::pending().await,
                }
            };
            let length = tokio::select! {
                length = read.read(&mut buffer) => length?,
                () = closed => {
                    (self.streams, self.writes) = (None, None);
                    continue;
                }
            };
            if length == 0 {
                return Ok(());
            }
            let bytes = buffer.get(..length).unwrap_or_default();
            self.receive(bytes).await?;
        }
    }

    /// Passes received bytes to the streams, and sends the frames that follow.
    async fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (events, output) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let events = state.receive(bytes).map_err(io::Error::other)?;
            for event in &events {
                if let Event::Opened { stream, .. } = event {
                    state.accept(*stream).map_err(io::Error::other)?;
                }
            }
            (events, state.take_output())
        };
        let writes = self.writes.clone();
        if let Some(writes) = &writes
            && !output.is_empty()
        {
            let sent = writes.send(output).await;
            sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        for event in events {
            match event {
                Event::Opened { stream, headers } => {
                    if let Some(writes) = &writes {
                        self.open_stream(stream, headers, writes.clone()).await;
                    }
                }
                Event::Data { stream, bytes } => {
                    let Some(incoming) = self.received.get_mut(&stream) else {
                        continue;
                    };
                    let Some(data) = &incoming.data else {
                        continue;
                    };
                    let bytes = PermittedBytes::wait(&self.budget, &bytes).await?;
                    if data.send(bytes).await.is_err() {
                        incoming.data = None;
                    }
                }
                Event::Finished { stream } => {
                    if let Some(incoming) = self.received.get_mut(&stream) {
                        incoming.data = None;
                    }
                }
                Event::Reset { stream } => {
                    self.received.remove(&stream);
                }
                Event::Accepted { .. } | Event::GoAway => {}
            }
        }
        Ok(())
    }

    /// Passes a stream that the client opened to the server.
    async fn open_stream(&mut self, stream: u32, headers: Headers, writes: mpsc::Sender<Bytes>) {
        let Some(streams) = &self.streams else {
            return;
        };
        let (data, received) = mpsc::channel(MESSAGES_WAITING_MAX);
        let (reset, is_reset) = oneshot::channel();
        self.received.retain(|_, incoming| !incoming.is_unused());
        let data = Some(data);
        self.received.insert(stream, StreamReceiver { data, reset });
        let opened = SpdyStream {
            headers,
            received,
            reset: is_reset,
            sender: StreamSender {
                stream,
                state: Arc::clone(&self.state),
                writes,
            },
        };
        // An error means that the session ends; the loop detects it.
        streams.send(opened).await.ok();
    }
}

async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut pending: mpsc::Receiver<Bytes>,
    state: &Mutex<Connection>,
) -> io::Result<()> {
    let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let bytes = tokio::select! {
            bytes = pending.recv() => bytes,
            _ = pings.tick() => Some(ping(state)),
        };
        let Some(bytes) = bytes else { break };
        write.write_all(&bytes).await?;
        if pending.is_empty() {
            write.flush().await?;
        }
    }
    write.shutdown().await
}

fn ping(state: &Mutex<Connection>) -> Bytes {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.ping();
    state.take_output()
}

/// Serves a command.
pub(super) async fn serve_command<S>(io: S, protocol: CommandProtocol, command: Command)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (present, gone) = oneshot::channel();
    let mut server = Server::start(io, present);
    let opened = timeout(STREAMS_TIMEOUT, open_streams(&mut server, protocol, &command)).await;
    let Ok(Some(mut opened)) = opened else {
        tracing::debug!("client did not open the streams of its command in time");
        return server.finish().await;
    };
    let (sizes, sizes_of_command) = watch::channel(None);
    if let Some(resizes) = opened.remove(&Stream::Resize) {
        tokio::spawn(receive_sizes(resizes, sizes));
    }
    let (output, mut pending) = mpsc::channel(MESSAGES_WAITING_MAX);
    let streams = ClientStreams {
        input: opened.remove(&Stream::Input).map(|stream| stream.received),
        sizes: sizes_of_command,
        output,
        gone,
    };
    let sending = async {
        while let Some((stream, bytes)) = pending.recv().await {
            if let Some(stream) = opened.get(&stream)
                && stream.sender.send(&bytes, false).await.is_err()
            {
                // The command is killed, as its output leads nowhere.
                pending.close();
                return opened;
            }
        }
        opened
    };
    // Streams beyond the expected ones are dropped: the reader waits until the server takes them.
    let extra = async {
        while server.opened.recv().await.is_some() {}
        std::future::pending::<Infallible>().await
    };
    let (result, opened) = tokio::select! {
        finished = async { tokio::join!(command.run(streams), sending) } => finished,
        never = extra => match never {},
    };
    let status = if protocol.has_status {
        result.status()
    } else {
        result.text()
    };
    end_streams(opened, status.as_slice()).await;
    server.finish().await;
}

/// Sends the status of a command, and the end of its streams.
async fn end_streams(opened: BTreeMap<Stream, SpdyStream>, status: &[u8]) {
    for (kind, stream) in &opened {
        let last = if *kind == Stream::Status { status } else { &[] };
        if let Err(error) = stream.sender.send(last, true).await {
            tracing::debug!(%error, "end of a stream not sent");
        }
    }
}

/// Waits for the streams of a command. Returns `None` if the client has disconnected.
async fn open_streams(
    server: &mut Server,
    protocol: CommandProtocol,
    command: &Command,
) -> Option<BTreeMap<Stream, SpdyStream>> {
    let has_sizes = command.options.has_terminal && protocol.has_resize;
    let others = [Stream::Status]
        .into_iter()
        .chain(has_sizes.then_some(Stream::Resize));
    let expected: Vec<Stream> = command.options.streams().chain(others).collect();
    let mut opened = BTreeMap::new();
    while expected.iter().any(|stream| !opened.contains_key(stream)) {
        let stream = server.opened.recv().await?;
        let name = stream.headers.get("streamtype").map(String::as_str);
        if let Some(kind) = name.and_then(Stream::of_type) {
            opened.insert(kind, stream);
        }
    }
    Some(opened)
}

async fn receive_sizes(mut resizes: SpdyStream, sizes: watch::Sender<Option<TerminalSize>>) {
    // Each size is one JSON value. They may arrive in one frame, or end with a newline.
    while let Some(message) = resizes.received.recv().await {
        let last = message
            .split(|byte| *byte == b'\n')
            .rev()
            .find_map(TerminalSize::parse);
        if last.is_some() {
            sizes.send_replace(last);
        }
    }
}

#[cfg(test)]
mod tests;
