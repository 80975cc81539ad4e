//! Output of a running container. One thread reads all its streams in the order of arrival, for the sessions and the log.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::attachments::ContainerStreams;
use super::container_log::{LogWriter, OutputStream};

#[cfg(test)]
mod tests;

/// Maximum number of bytes that are read at once.
const READ_BYTES_MAX: usize = 8 << 10;

/// Output streams of a container that have not ended, with the sessions that receive them.
pub(super) struct ContainerOutput {
    /// Reading ends of pipes, or the controlling side of a terminal.
    ends: BTreeMap<OutputStream, OwnedFd>,
    sessions: ContainerStreams,
}

impl ContainerOutput {
    /// Returns the output with these ends.
    pub(super) fn new(ends: BTreeMap<OutputStream, OwnedFd>, sessions: ContainerStreams) -> Self {
        Self { ends, sessions }
    }

    /// Copies the output to the sessions and to the log until all streams end.
    ///
    /// # Errors
    /// Errors of `poll(2)` and `read(2)`.
    pub(super) fn copy(mut self, log: &mut LogWriter) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES_MAX];
        while !self.ends.is_empty() {
            for stream in self.wait()? {
                let Some(end) = self.ends.get(&stream) else {
                    continue;
                };
                let length = match rustix::io::read(end, buffer.as_mut_slice()) {
                    Err(Errno::AGAIN | Errno::INTR) => continue,
                    // All processes have closed the terminal.
                    Err(Errno::IO) => 0,
                    read => read?,
                };
                if length == 0 {
                    self.ends.remove(&stream);
                    self.sessions.end_output(stream);
                    log.end(stream);
                    continue;
                }
                let bytes = buffer.get(..length).unwrap_or_default();
                self.sessions.deliver(stream, bytes);
                log.append(stream, bytes);
            }
        }
        Ok(())
    }

    /// Waits for output. Returns the streams that have some, or have ended.
    fn wait(&self) -> io::Result<Vec<OutputStream>> {
        let mut polled: Vec<PollFd<'_>> = self
            .ends
            .values()
            .map(|end| PollFd::new(end, PollFlags::IN))
            .collect();
        match poll(&mut polled, None) {
            Err(Errno::INTR) => return Ok(Vec::new()),
            result => result?,
        };
        let all = self.ends.keys().zip(&polled);
        let ready = all.filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|(stream, _)| *stream).collect())
    }
}

impl Drop for ContainerOutput {
    fn drop(&mut self) {
        for stream in [OutputStream::Output, OutputStream::Error] {
            self.sessions.end_output(stream);
        }
    }
}
