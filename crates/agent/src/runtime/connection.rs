//! The agent's side of a sandbox's socket: requests with their answers, and what happens by itself.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::RuntimeError;
use crate::sandbox::protocol::{Action, ContainerState, Exit, LINE_BYTES_MAX, Message, Outcome, Request};

/// Requests that wait to be written: a handful for each container at most.
const REQUESTS_MAX: usize = 64;
/// Ends of containers that wait to be seen.
const HAPPENINGS_MAX: usize = 64;

/// What happens in a sandbox by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A container has ended.
    Ended {
        /// Name.
        name: String,
        /// How.
        exit: Exit,
    },
    /// The sandbox has ended, and everything in it.
    Gone,
}

type Asked = (Action, oneshot::Sender<Outcome>);

/// The way to a sandbox. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    requests: mpsc::Sender<Asked>,
}

impl Connection {
    /// Waits for the greeting, then keeps the connection in a task, which ends with it.
    pub async fn open(
        stream: UnixStream,
    ) -> io::Result<(Self, BTreeMap<String, ContainerState>, mpsc::Receiver<Happening>)> {
        let (read, write) = stream.into_split();
        let mut lines = Lines::new(read);
        let Some(Message::Hello { containers }) = lines.next().await? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the sandbox does not greet",
            ));
        };
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let (told, happenings) = mpsc::channel(HAPPENINGS_MAX);
        tokio::spawn(async move {
            let task = Task {
                write,
                waiting: HashMap::new(),
                last_id: 0,
                told,
            };
            if let Err(error) = task.run(lines, asked).await {
                tracing::debug!(%error, "a sandbox's connection ended");
            }
        });
        Ok((Self { requests }, containers, happenings))
    }

    /// Asks for something and waits for the outcome; never [`Outcome::Failed`].
    pub async fn ask(&self, action: Action, limit: Duration) -> Result<Outcome, RuntimeError> {
        let gone = |kind: io::ErrorKind| RuntimeError::Gone { source: kind.into() };
        let (answer, answered) = oneshot::channel();
        let exchange = async {
            self.requests
                .send((action, answer))
                .await
                .map_err(|_| gone(io::ErrorKind::BrokenPipe))?;
            answered.await.map_err(|_| gone(io::ErrorKind::BrokenPipe))
        };
        match timeout(limit, exchange).await {
            Err(_) => Err(gone(io::ErrorKind::TimedOut)),
            Ok(Ok(Outcome::Failed { message })) => Err(RuntimeError::Refused { message }),
            Ok(other) => other,
        }
    }
}

struct Task {
    write: OwnedWriteHalf,
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    last_id: u64,
    told: mpsc::Sender<Happening>,
}

impl Task {
    async fn run(mut self, lines: Lines, mut asked: mpsc::Receiver<Asked>) -> io::Result<()> {
        // A line that is half read must not be lost to the other branch, so reading has a task of its own.
        let (said, mut messages) = mpsc::channel(1);
        let reader = tokio::spawn(read_all(lines, said));
        let result = loop {
            tokio::select! {
                request = asked.recv() => match request {
                    Some(request) => if let Err(error) = self.ask(request).await { break Err(error) },
                    None => break Ok(()),
                },
                message = messages.recv() => match message {
                    Some(message) => self.hear(message).await,
                    None => break Ok(()),
                },
            }
        };
        reader.abort();
        result
    }

    async fn ask(&mut self, (action, answer): Asked) -> io::Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        self.waiting.insert(id, answer);
        let mut line = serde_json::to_vec(&Request { id, action })?;
        line.push(b'\n');
        self.write.write_all(&line).await
    }

    async fn hear(&mut self, message: Message) {
        match message {
            Message::Hello { .. } => {}
            Message::Answer { id, outcome } => {
                if let Some(waiting) = self.waiting.remove(&id) {
                    // Whoever asked may have given up meanwhile.
                    drop(waiting.send(outcome));
                }
            }
            Message::Ended { name, exit } => {
                if self.told.send(Happening::Ended { name, exit }).await.is_err() {
                    tracing::debug!("a container ended in a sandbox that nobody looks at");
                }
            }
        }
    }
}

async fn read_all(mut lines: Lines, said: mpsc::Sender<Message>) {
    loop {
        match lines.next().await {
            Ok(Some(message)) => {
                if said.send(message).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a sandbox says what is not understood");
                return;
            }
        }
    }
}

struct Lines {
    reader: BufReader<OwnedReadHalf>,
}

impl Lines {
    fn new(read: OwnedReadHalf) -> Self {
        Self {
            reader: BufReader::new(read),
        }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Message>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(LINE_BYTES_MAX as u64);
        if limited.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }
}
