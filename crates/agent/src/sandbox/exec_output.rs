//! Output of a command that is executed in a container.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Maximum number of bytes kept of the output. The rest is read and dropped (upstream keeps as much of a probe's
/// output).
const OUTPUT_BYTES_MAX: usize = 10 << 10;
/// Interval at which the exit of the command is checked while another process holds its output open.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Reads until `end` reports the exit of the command, or until `deadline`. Returns the exit, if any, and the output.
///
/// # Errors
/// Errors of `poll(2)` and `read(2)`.
pub(super) fn collect<T>(
    mut output: PipeReader,
    end: &Receiver<T>,
    deadline: Instant,
) -> io::Result<(Option<T>, String)> {
    let mut content = Vec::new();
    let mut is_open = true;
    let ended = loop {
        if let Ok(ended) = end.try_recv() {
            break Some(ended);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break None;
        }
        if is_open {
            is_open = read_if_ready(&mut output, left.min(EXIT_CHECK_INTERVAL), &mut content)?;
        } else {
            break end.recv_timeout(left).ok();
        }
    };
    while is_open && is_readable(&output, Duration::ZERO)? {
        is_open = read_if_ready(&mut output, Duration::ZERO, &mut content)?;
    }
    Ok((ended, String::from_utf8_lossy(&content).into_owned()))
}

/// Reads once if the pipe is readable within `timeout`. Returns false at its end.
fn read_if_ready(output: &mut PipeReader, timeout: Duration, content: &mut Vec<u8>) -> io::Result<bool> {
    if !is_readable(output, timeout)? {
        return Ok(true);
    }
    let mut chunk = [0; 4096];
    let length = output.read(&mut chunk)?;
    let room = OUTPUT_BYTES_MAX.saturating_sub(content.len());
    content.extend(chunk.iter().take(length.min(room)));
    Ok(length > 0)
}

fn is_readable(output: &PipeReader, timeout: Duration) -> io::Result<bool> {
    let mut descriptor = libc::pollfd {
        fd: output.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one descriptor structure, which lives through the call.
    match unsafe { libc::poll(&raw mut descriptor, 1, timeout) } {
        0.. => Ok(descriptor.revents != 0),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}
