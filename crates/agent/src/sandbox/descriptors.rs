//! File descriptors over Unix sockets (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors of one message: standard input, output and error.
pub(crate) const DESCRIPTORS_MAX: usize = 3;
/// Maximum number of bytes of one message that are received.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const CHUNK_BYTES: usize = 4 << 10;

/// Sends bytes, which must fit the socket's buffer, with descriptors.
///
/// # Errors
/// Errors of `sendmsg(2)`.
pub(super) fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(
        socket.as_fd(),
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Receives bytes and descriptors up to a newline or the end of the stream.
///
/// # Errors
/// Errors of `recvmsg(2)`, and `InvalidData` for a message that is too long.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
    loop {
        let mut chunk = [0; CHUNK_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut chunk)],
            &mut ancillary,
            flags,
        );
        let count = match received {
            Err(rustix::io::Errno::INTR) => continue,
            received => received?.bytes,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        bytes.extend(chunk.iter().take(count));
        if count == 0 || bytes.last() == Some(&b'\n') {
            return Ok((bytes, descriptors));
        }
        if bytes.len() > MESSAGE_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
