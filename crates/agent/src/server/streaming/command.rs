//! Copies data between a command in a container, or the container itself, and the streams of a client.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use streams::protocol::{Stream, TerminalSize};
use streams::status::CommandResult;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::READ_BYTES_MAX;
use super::client_streams::ClientStreams;
use super::client_streams::Outgoing;
use super::parameters::CommandOptions;
use crate::runtime::session::{AttachedInput, Session, SessionStreams, Terminal};
use crate::sandbox::session::SessionRequest;

/// Time without output after which the output of a command that has exited is complete, though another process holds it
/// open.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Operation on a running container.
pub(super) struct Command {
    pub options: CommandOptions,
    pub operation: Operation,
    /// Socket of the sandbox for sessions.
    pub socket: PathBuf,
    pub container: String,
}

/// Source of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A command is executed.
    Execute,
    /// The streams are those of the container.
    Attach,
}

impl Command {
    /// Runs until the command or the container exits, or the client has disconnected. The latter kills a command.
    pub(super) async fn run(self, streams: ClientStreams) -> CommandResult {
        let (request, activity) = match self.operation {
            Operation::Execute => {
                let request = SessionRequest::Execute {
                    container: self.container,
                    command: self.options.command,
                    has_input: self.options.has_input,
                    has_terminal: self.options.has_terminal,
                };
                (request, "executing command in")
            }
            Operation::Attach => {
                let request = SessionRequest::Attach {
                    container: self.container,
                    has_input: self.options.has_input,
                    splits_error: true,
                };
                (request, "attaching to")
            }
        };
        let result = match Session::begin(self.socket, request).await {
            Ok((session, ends)) => copy(session, ends, streams).await,
            Err(error) => CommandResult::Failed(format!("error {activity} container: {error}")),
        };
        match result {
            // As upstream: the status of the Pod has the exit code of the container.
            CommandResult::Exited(_) if self.operation == Operation::Attach => CommandResult::Exited(0),
            result => result,
        }
    }
}

/// Copies until the command has exited and its output is sent.
async fn copy(mut session: Session, ends: SessionStreams, streams: ClientStreams) -> CommandResult {
    let ClientStreams {
        input,
        sizes,
        output,
        mut gone,
    } = streams;
    let (exited, has_exited) = watch::channel(false);
    // The inputs end with this function: a command need not read its input.
    let (_inputs, mut outputs) = start_copies(ends, input, sizes, &output, has_exited);
    let finished = async {
        let exit = session.exit().await;
        exited.send_replace(true);
        while outputs.join_next().await.is_some() {}
        exit
    };
    tokio::select! {
        exit = finished => match exit {
            Ok(code) => CommandResult::Exited(code),
            Err(error) => CommandResult::Failed(format!("the sandbox of the container ended: {error}")),
        },
        _ = &mut gone => CommandResult::Failed("the client has disconnected".to_owned()),
        () = output.closed() => CommandResult::Failed("the client has disconnected".to_owned()),
    }
}

/// Starts the tasks that copy inputs, and those that copy outputs until `has_exited` and the end of the output.
fn start_copies(
    ends: SessionStreams,
    input: Option<mpsc::Receiver<Bytes>>,
    sizes: watch::Receiver<Option<TerminalSize>>,
    output: &mpsc::Sender<Outgoing>,
    has_exited: watch::Receiver<bool>,
) -> (JoinSet<()>, JoinSet<()>) {
    let (mut inputs, mut outputs) = (JoinSet::new(), JoinSet::new());
    match ends {
        SessionStreams::Pipes {
            input: pipe,
            output: standard,
            error,
        } => {
            if let (Some(input), Some(pipe)) = (input, pipe) {
                inputs.spawn(write_pipe(input, pipe));
            }
            for (stream, pipe) in [(Stream::Output, standard), (Stream::Error, error)] {
                outputs.spawn(read_pipe(pipe, stream, output.clone(), has_exited.clone()));
            }
        }
        SessionStreams::Terminal(terminal) => {
            let terminal = Arc::new(terminal);
            inputs.spawn(resize(sizes, Arc::clone(&terminal)));
            if let Some(input) = input {
                inputs.spawn(write_terminal(input, Arc::clone(&terminal)));
            }
            outputs.spawn(read_terminal(terminal, output.clone(), has_exited));
        }
        SessionStreams::Attached {
            input: container_input,
            output: standard,
            error,
        } => {
            spawn_input(&mut inputs, container_input, input, sizes);
            if let Some(error) = error {
                outputs.spawn(read_pipe(
                    error,
                    Stream::Error,
                    output.clone(),
                    has_exited.clone(),
                ));
            }
            outputs.spawn(read_pipe(standard, Stream::Output, output.clone(), has_exited));
        }
    }
    (inputs, outputs)
}

/// Starts the tasks for the input of a container. Without one, the input of the client is dropped.
fn spawn_input(
    tasks: &mut JoinSet<()>,
    container_input: AttachedInput,
    input: Option<mpsc::Receiver<Bytes>>,
    sizes: watch::Receiver<Option<TerminalSize>>,
) {
    match (container_input, input) {
        (AttachedInput::Pipe(pipe), Some(input)) => {
            tasks.spawn(write_pipe(input, pipe));
        }
        (AttachedInput::Terminal { terminal, has_input }, input) => {
            let terminal = Arc::new(terminal);
            tasks.spawn(resize(sizes, Arc::clone(&terminal)));
            if let Some(input) = input.filter(|_| has_input) {
                tasks.spawn(write_terminal(input, terminal));
            }
        }
        (AttachedInput::Null | AttachedInput::Pipe(_), _) => {}
    }
}

async fn read_pipe(
    mut pipe: pipe::Receiver,
    stream: Stream,
    output: mpsc::Sender<Outgoing>,
    has_exited: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; READ_BYTES_MAX];
    while let Some(length) = next(pipe.read(&mut buffer), &has_exited).await {
        let bytes = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        if output.send((stream, bytes)).await.is_err() {
            return;
        }
    }
}

/// Returns the length of the next read; `None` at the end, or if nothing comes after the exit of the command.
async fn next(
    read: impl Future<Output = io::Result<usize>>,
    has_exited: &watch::Receiver<bool>,
) -> Option<usize> {
    let mut has_exited = has_exited.clone();
    let rest = async {
        // An error means that the command has exited as well.
        has_exited.wait_for(|exited| *exited).await.ok();
        tokio::time::sleep(REST_TIMEOUT).await;
    };
    tokio::select! {
        biased;
        read = read => read.ok().filter(|length| *length > 0),
        () = rest => None,
    }
}

async fn write_pipe(mut input: mpsc::Receiver<Bytes>, mut pipe: pipe::Sender) {
    while let Some(bytes) = input.recv().await {
        // The command may close its input; the client is not told, as in upstream.
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn write_terminal(mut input: mpsc::Receiver<Bytes>, terminal: Arc<Terminal>) {
    while let Some(bytes) = input.recv().await {
        if terminal.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_terminal(
    terminal: Arc<Terminal>,
    output: mpsc::Sender<Outgoing>,
    has_exited: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; READ_BYTES_MAX];
    while let Some(length) = next(terminal.read(&mut buffer), &has_exited).await {
        let bytes = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        if output.send((Stream::Output, bytes)).await.is_err() {
            return;
        }
    }
}

async fn resize(mut sizes: watch::Receiver<Option<TerminalSize>>, terminal: Arc<Terminal>) {
    loop {
        let size = *sizes.borrow_and_update();
        if let Some(Err(error)) = size.map(|size| terminal.resize(size)) {
            tracing::debug!(%error, "size of a terminal not set");
        }
        if sizes.changed().await.is_err() {
            return;
        }
    }
}
