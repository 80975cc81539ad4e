//! The sandbox's side of the socket.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use super::complaints::complain;
use super::programs::Programs;
use super::protocol::{Action, LINE_BYTES_MAX, Message, Outcome, Request};

/// An agent that takes no message for this long counts as gone: reaping must go on.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one agent after the other, on a thread.
pub(super) fn start(listener: UnixListener, programs: Programs) -> io::Result<()> {
    let serve = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| converse(stream, &programs)) {
                complain(format_args!("agent: {error}"));
            }
        }
    };
    thread::Builder::new()
        .name("agent".to_owned())
        .spawn(serve)
        .map(drop)
}

/// A message as one line.
pub(super) fn line(message: &Message) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

fn converse(stream: UnixStream, programs: &Programs) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    programs.attach(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(LINE_BYTES_MAX as u64);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a line that is cut short or too long",
            ));
        }
        obey(serde_json::from_slice(&line)?, programs)?;
    }
}

fn obey(request: Request, programs: &Programs) -> io::Result<()> {
    let Request { id, action } = request;
    let done = match action {
        Action::Start { name, program, log } => programs.start(&name, &program, &log),
        Action::Signal { name, signal, group } => programs.signal(&name, signal, group),
        Action::Execute {
            container,
            command,
            timeout_ms,
        } => {
            let programs = programs.clone();
            // It may take long, so the next request must not wait for it.
            let execute = move || {
                let outcome = programs.execute(&container, command, Duration::from_millis(timeout_ms));
                let outcome = outcome.unwrap_or_else(failed);
                programs.send(&Message::Answer { id, outcome });
            };
            return thread::Builder::new()
                .name("execute".to_owned())
                .spawn(execute)
                .map(drop);
        }
    };
    let outcome = done.map_or_else(failed, |()| Outcome::Done);
    programs.send(&Message::Answer { id, outcome });
    Ok(())
}

fn failed(error: io::Error) -> Outcome {
    Outcome::Failed {
        message: error.to_string(),
    }
}
