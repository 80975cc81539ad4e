//! Two connections joined: what one says the other hears, each direction ends by itself, and what breaks one breaks
//! the other.

use std::cell::RefCell;
use std::io;
use std::net::Shutdown;
use std::time::Duration;

use rustix::net::RecvFlags;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::bulk::{Passed, Pipe};

/// What is read at once. One buffer for all connections of a thread, so that connections which say nothing cost none;
/// a direction whose reader is slow holds as much until it was taken.
const BUFFER_BYTES: usize = 64 << 10;

/// So many reads in a row that fill the buffer, or that the other side takes slowly, make a stream one with much to
/// say.
const BULK_STEPS: usize = 4;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into());
}

/// What one read came to.
enum Step {
    /// Nothing was there yet.
    Nothing,
    /// All of it was passed on; whether there was as much as is read at once.
    Passed { is_full: bool },
    /// So much is left to write, since the reader is slow.
    Left(Box<[u8]>),
    /// The sender has no more to say.
    End,
}

/// Passes on until both have ended. After an error both are reset.
pub async fn relay(client: &TcpStream, endpoint: &TcpStream) -> io::Result<()> {
    let result = tokio::try_join!(pump_at_once(client, endpoint), pump(endpoint, client));
    if result.is_err() {
        reset_at_close(client);
        reset_at_close(endpoint);
    }
    result.map(drop)
}

/// Has the peer told by a reset, as soon as the connection is dropped.
pub fn reset_at_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection is closed rather than reset");
    }
}

/// The same for a sender who most likely has said something already: a new connection is not known to be readable
/// yet, and asking the runtime for it would be a round through the kernel.
async fn pump_at_once(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let read = |buffer: &mut [u8]| Ok(rustix::net::recv(from, buffer, RecvFlags::DONTWAIT)?.0);
    match step(read, to)? {
        Step::Nothing | Step::Passed { .. } => pump(from, to).await,
        Step::Left(rest) => {
            write_all(to, &rest).await?;
            pump(from, to).await
        }
        Step::End => end(to),
    }
}

/// Passes on one direction until it ends.
async fn pump(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let mut full_steps = 0;
    loop {
        from.readable().await?;
        match step(|buffer| from.try_read(buffer), to)? {
            Step::Nothing => continue,
            Step::Passed { is_full: false } => full_steps = 0,
            Step::Passed { is_full: true } => full_steps += 1,
            Step::Left(rest) => {
                write_all(to, &rest).await?;
                full_steps += 1;
            }
            Step::End => return end(to),
        }
        if full_steps < BULK_STEPS {
            continue;
        }
        full_steps = 0;
        if let Some(pipe) = Pipe::open()
            && pipe.pass_on(from, to).await? == Passed::End
        {
            return end(to);
        }
    }
}

fn end(to: &TcpStream) -> io::Result<()> {
    SockRef::from(to).shutdown(Shutdown::Write)
}

fn step(read: impl FnOnce(&mut [u8]) -> io::Result<usize>, to: &TcpStream) -> io::Result<Step> {
    BUFFER.with_borrow_mut(|buffer| {
        let bytes = match read(buffer) {
            Ok(0) => return Ok(Step::End),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Nothing),
            Err(error) => return Err(error),
        };
        let is_full = bytes == buffer.len();
        let read = buffer.get(..bytes).unwrap_or_default();
        // A new connection is not known to be writable yet, though it is.
        let written = match SockRef::from(to).send(read) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        Ok(match read.get(written..).unwrap_or_default() {
            [] => Step::Passed { is_full },
            rest => Step::Left(rest.into()),
        })
    })
}

async fn write_all(to: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        to.ready(Interest::WRITABLE).await?;
        match to.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
