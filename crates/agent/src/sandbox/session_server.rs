//! Server of sessions ([`super::session`]).

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::descriptors;
use super::error_log::log_error;
use super::processes::Processes;
use super::session::{Input, SessionMessage, SessionRequest};

/// Time in which the agent sends its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once. Each has a thread. The agent has a lower limit for the sessions of one Pod.
const CONNECTIONS_MAX: usize = 64;

/// Accepts connections on a thread.
///
/// # Errors
/// Errors of the thread's creation.
pub(super) fn start(listener: UnixListener, processes: Processes) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| start_connection(stream, &processes, &open)) {
                log_error(format_args!("session: {error}"));
            }
        }
    };
    thread::Builder::new()
        .name("sessions".to_owned())
        .spawn(accept)
        .map(drop)
}

fn start_connection(stream: UnixStream, processes: &Processes, open: &Arc<AtomicUsize>) -> io::Result<()> {
    if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
        let message = "too many sessions in this Pod".to_owned();
        return SessionMessage::Failed { message }.send(&stream, &[]);
    }
    open.fetch_add(1, Ordering::Relaxed);
    let (processes, counted) = (processes.clone(), Arc::clone(open));
    let serve = move || {
        if let Err(error) = serve_connection(&stream, &processes) {
            log_error(format_args!("session: {error}"));
        }
        counted.fetch_sub(1, Ordering::Relaxed);
    };
    let started = thread::Builder::new().name("session".to_owned()).spawn(serve);
    if started.is_err() {
        open.fetch_sub(1, Ordering::Relaxed);
    }
    started.map(drop)
}

/// Serves one request of the agent, with file descriptors in the response.
fn serve_connection(stream: &UnixStream, processes: &Processes) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let (line, _descriptors) = descriptors::receive(stream)?;
    stream.set_read_timeout(None)?;
    match serde_json::from_slice(&line)? {
        SessionRequest::Network => {
            let namespace = std::fs::File::open("/proc/self/ns/net")?;
            SessionMessage::Started.send(stream, &[namespace.as_fd()])
        }
        SessionRequest::Attach {
            container,
            has_input,
            splits_error,
        } => match processes.attach_session(&container, has_input, splits_error, stream) {
            Ok((streams, session)) => {
                let ended = wait_for_hangup(stream);
                streams.detach(session);
                ended
            }
            Err(error) => send_failure(stream, &error),
        },
        SessionRequest::Execute {
            container,
            command,
            has_input,
            has_terminal,
        } => {
            let input = match (has_terminal, has_input) {
                (true, _) => Input::Terminal,
                (false, true) => Input::Pipe,
                (false, false) => Input::Null,
            };
            match processes.begin_session(&container, command, input, stream) {
                Ok(session) => {
                    wait_for_hangup(stream)?;
                    processes.kill_session(session);
                    Ok(())
                }
                Err(error) => send_failure(stream, &error),
            }
        }
    }
}

fn send_failure(stream: &UnixStream, error: &io::Error) -> io::Result<()> {
    let message = error.to_string();
    SessionMessage::Failed { message }.send(stream, &[])
}

/// Waits until the agent closes the connection. It sends nothing more.
fn wait_for_hangup(mut stream: &UnixStream) -> io::Result<()> {
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The connection was reset, which ends it as well.
            Err(_) => return Ok(()),
        }
    }
}
