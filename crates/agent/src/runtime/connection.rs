//! Connection of the agent to a sandbox: requests with their responses, and events.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::RuntimeError;
use crate::sandbox::protocol::{Action, ContainerState, Exit, LINE_BYTES_MAX, Message, Outcome, Request};

/// Maximum number of requests that wait to be written: a few for each container.
const REQUESTS_MAX: usize = 64;
/// Maximum number of events that wait for the Pod worker.
const EVENTS_WAITING_MAX: usize = 64;

/// Event of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxEvent {
    /// A container has exited.
    ContainerExited {
        /// Container name.
        name: String,
        /// Exit of its first process.
        exit: Exit,
    },
    /// The sandbox process has exited, and with it all containers.
    SandboxExited,
}

type PendingRequest = (Action, oneshot::Sender<Outcome>);

/// Client of a sandbox. Clones share the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    requests: mpsc::Sender<PendingRequest>,
}

impl Connection {
    /// Reads the first message, then serves the connection in a task, which ends with it.
    ///
    /// # Errors
    /// Errors of the socket, and `InvalidData` for another first message.
    pub(super) async fn open(
        stream: UnixStream,
    ) -> io::Result<(
        Self,
        BTreeMap<String, ContainerState>,
        mpsc::Receiver<SandboxEvent>,
    )> {
        let (read, write) = stream.into_split();
        let mut lines = Lines::new(read);
        let Some(Message::Hello { containers }) = lines.next().await? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "expected the message Hello from the sandbox",
            ));
        };
        let (requests, pending) = mpsc::channel(REQUESTS_MAX);
        let (event_sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        tokio::spawn(async move {
            let task = Task {
                write,
                waiting: HashMap::new(),
                last_id: 0,
                events: event_sender,
            };
            if let Err(error) = task.run(lines, pending).await {
                tracing::debug!(%error, "connection to a sandbox ended");
            }
        });
        Ok((Self { requests }, containers, events))
    }

    /// Sends a request and waits for the outcome, which is never [`Outcome::Failed`].
    ///
    /// # Errors
    /// [`RuntimeError::Disconnected`] without a response within `timeout`, [`RuntimeError::Failed`] if the sandbox
    /// reports a failure.
    pub(super) async fn request(&self, action: Action, timeout: Duration) -> Result<Outcome, RuntimeError> {
        let disconnected = |kind: io::ErrorKind| RuntimeError::Disconnected { source: kind.into() };
        let (sender, response) = oneshot::channel();
        let exchange = async {
            self.requests
                .send((action, sender))
                .await
                .map_err(|_| disconnected(io::ErrorKind::BrokenPipe))?;
            response
                .await
                .map_err(|_| disconnected(io::ErrorKind::BrokenPipe))
        };
        match tokio::time::timeout(timeout, exchange).await {
            Err(_) => Err(disconnected(io::ErrorKind::TimedOut)),
            Ok(Ok(Outcome::Failed { message })) => Err(RuntimeError::Failed { message }),
            Ok(other) => other,
        }
    }
}

/// Task that matches responses to requests, and passes events on.
struct Task {
    write: OwnedWriteHalf,
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    last_id: u64,
    events: mpsc::Sender<SandboxEvent>,
}

impl Task {
    async fn run(mut self, lines: Lines, mut pending: mpsc::Receiver<PendingRequest>) -> io::Result<()> {
        // Reading has its own task, because the other branch would discard a partially read line.
        let (sender, mut messages) = mpsc::channel(1);
        let reader = tokio::spawn(read_all(lines, sender));
        let result = loop {
            tokio::select! {
                request = pending.recv() => match request {
                    Some(request) => if let Err(error) = self.send(request).await { break Err(error) },
                    None => break Ok(()),
                },
                message = messages.recv() => match message {
                    Some(message) => self.handle(message).await,
                    None => break Ok(()),
                },
            }
        };
        reader.abort();
        result
    }

    async fn send(&mut self, (action, response): PendingRequest) -> io::Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        let mut line = serde_json::to_vec(&Request { id, action })?;
        line.push(b'\n');
        // The sandbox ends the connection, and the Pod with it, at a longer line.
        if line.len() > LINE_BYTES_MAX {
            let message = format!("command and environment are larger than {LINE_BYTES_MAX} bytes");
            // The client may have timed out meanwhile.
            drop(response.send(Outcome::Failed { message }));
            return Ok(());
        }
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        self.waiting.insert(id, response);
        self.write.write_all(&line).await
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Hello { .. } => {}
            Message::Answer { id, outcome } => {
                if let Some(waiting) = self.waiting.remove(&id) {
                    // The client may have timed out meanwhile.
                    drop(waiting.send(outcome));
                }
            }
            Message::Ended { name, exit } => {
                if self
                    .events
                    .send(SandboxEvent::ContainerExited { name, exit })
                    .await
                    .is_err()
                {
                    tracing::debug!("exit of a container in a sandbox without a worker");
                }
            }
        }
    }
}

async fn read_all(mut lines: Lines, sender: mpsc::Sender<Message>) {
    loop {
        match lines.next().await {
            Ok(Some(message)) => {
                if sender.send(message).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "invalid message of a sandbox");
                return;
            }
        }
    }
}

/// Reader of bounded lines.
struct Lines {
    reader: BufReader<OwnedReadHalf>,
}

impl Lines {
    fn new(read: OwnedReadHalf) -> Self {
        Self {
            reader: BufReader::new(read),
        }
    }

    /// Reads the next message; `None` at the end of the stream.
    async fn next(&mut self) -> io::Result<Option<Message>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(LINE_BYTES_MAX as u64);
        if limited.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }
}
