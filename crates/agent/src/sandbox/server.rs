//! Socket server of the sandbox.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use super::error_log::log_error;
use super::processes::Processes;
use super::protocol::{Action, LINE_BYTES_MAX, Message, Outcome, Request};

/// Time after which an agent that takes no message counts as disconnected: reaping must continue.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one agent after the other on a thread.
///
/// # Errors
/// Errors of the thread's creation.
pub(super) fn start(listener: UnixListener, processes: Processes) -> io::Result<()> {
    let serve = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| serve_connection(stream, &processes)) {
                log_error(format_args!("agent: {error}"));
            }
        }
    };
    thread::Builder::new()
        .name("agent".to_owned())
        .spawn(serve)
        .map(drop)
}

fn serve_connection(stream: UnixStream, processes: &Processes) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    processes.attach(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(LINE_BYTES_MAX as u64);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "incomplete or oversized line",
            ));
        }
        handle(serde_json::from_slice(&line)?, processes)?;
    }
}

fn handle(request: Request, processes: &Processes) -> io::Result<()> {
    let Request { id, action } = request;
    let result = match action {
        Action::Start { name, program, log } => processes.start(&name, &program, &log),
        Action::Signal { name, signal, group } => processes.signal(&name, signal, group),
        Action::Execute {
            container,
            command,
            timeout_ms,
        } => {
            let processes = processes.clone();
            // On a separate thread, because the next request must not wait for it.
            let execute = move || {
                let outcome = processes.execute(&container, command, Duration::from_millis(timeout_ms));
                let outcome = outcome.unwrap_or_else(failed_outcome);
                processes.send(&Message::Answer { id, outcome });
            };
            return thread::Builder::new()
                .name("execute".to_owned())
                .spawn(execute)
                .map(drop);
        }
    };
    let outcome = result.map_or_else(failed_outcome, |()| Outcome::Done);
    processes.send(&Message::Answer { id, outcome });
    Ok(())
}

fn failed_outcome(error: io::Error) -> Outcome {
    Outcome::Failed {
        message: error.to_string(),
    }
}
