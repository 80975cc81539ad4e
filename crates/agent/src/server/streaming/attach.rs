//! Output of a running container, from its log: a client that attaches receives later output. Standard input of containers
//! is empty, so input of the client is read and dropped.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use streams::protocol::Stream;
use streams::status::CommandResult;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::client_streams::ClientStreams;
use crate::logs::{self, ClientGone, ContainerLog, Options};

/// Copies the output of a container until it exits or the client is gone. `reader` is the permit of the thread.
pub(super) async fn attach(
    log: ContainerLog,
    reader: OwnedSemaphorePermit,
    streams: ClientStreams,
) -> CommandResult {
    let ClientStreams {
        input,
        output,
        mut gone,
        sizes: _sizes,
    } = streams;
    let options = Options {
        follow: true,
        tail_lines: Some(0),
        ..Options::default()
    };
    let is_gone = Arc::new(AtomicBool::new(false));
    let checked = Arc::clone(&is_gone);
    let reading = tokio::task::spawn_blocking(move || {
        let _reader = reader;
        let sink = |line: Vec<u8>| {
            let is_open = !checked.load(Ordering::Relaxed) && !output.is_closed();
            // An empty line checks if the client still reads.
            if !is_open || (!line.is_empty() && output.blocking_send((Stream::Output, line.into())).is_err())
            {
                return Err(ClientGone);
            }
            Ok(())
        };
        logs::read(&log, &options, sink)
    });
    let failed =
        |error: &dyn Display| CommandResult::Failed(format!("error attaching to container: {error}"));
    let result = tokio::select! {
        read = reading => match read {
            Ok(Ok(_)) => CommandResult::Exited(0),
            Ok(Err(error)) => failed(&error),
            Err(error) => failed(&error),
        },
        _ = &mut gone => CommandResult::Failed("the client is gone".to_owned()),
        never = drop_all(input) => match never {},
    };
    is_gone.store(true, Ordering::Relaxed);
    result
}

/// Receives and drops input. Does not end, because the output goes on after the input.
async fn drop_all(input: Option<mpsc::Receiver<Bytes>>) -> Infallible {
    if let Some(mut input) = input {
        while input.recv().await.is_some() {}
    }
    std::future::pending().await
}
