//! Events of connection tracking (`NFNLGRP_CONNTRACK_NEW`, `NFNLGRP_CONNTRACK_DESTROY`).
//!
//! The kernel sends events if `net.netfilter.nf_conntrack_events` is 1, or 2 and a process listens. With 2, entries
//! that began before the first listener have no event of their end.

use std::io;
use std::time::Duration;

use super::{Flow, wire};
use crate::message::{Message, messages};
use crate::socket::{Socket, Subsystem};

/// `NFNLGRP_CONNTRACK_NEW`.
const GROUP_NEW: u32 = 1;
/// `NFNLGRP_CONNTRACK_DESTROY`.
const GROUP_DESTROY: u32 = 3;
/// Size of the kernel's queue in bytes: about 20,000 events.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// Begin or end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet has passed.
    Begin(Flow),
    /// The entry is deleted. The counters are final; the time of expiry is 0.
    End(Flow),
}

/// Result of reading events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRead {
    /// Datagrams that were read; each contains one event.
    pub events: usize,
    /// True if the kernel dropped events because the queue was full.
    pub has_lost: bool,
    /// True if the queue was empty at the end.
    pub is_drained: bool,
}

/// Subscription to the events of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
}

impl Events {
    /// Subscribes. This needs CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        socket.reserve_receive(QUEUE_BYTES)?;
        socket.join(GROUP_NEW)?;
        socket.join(GROUP_DESTROY)?;
        Ok(Self { socket })
    }

    /// Waits at most `timeout` for events. Returns true if there are any.
    ///
    /// # Errors
    ///
    /// The error of `poll(2)`.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.socket.wait(timeout)
    }

    /// Passes queued events to `each`, until the queue is empty or `events_max` events are read.
    ///
    /// # Errors
    ///
    /// The error of the socket. Lost events are not an error.
    pub fn read(&mut self, events_max: usize, mut each: impl FnMut(&Event)) -> io::Result<EventRead> {
        let mut result = EventRead::default();
        while result.events < events_max {
            // A datagram without a readable event counts, too: the loop is bounded.
            result.events += 1;
            match self.socket.receive_now() {
                Ok(None) => {
                    result.events -= 1;
                    result.is_drained = true;
                    break;
                }
                Ok(Some(datagram)) => {
                    for event in messages(datagram).filter_map(|message| read(&message)) {
                        each(&event);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => result.has_lost = true,
                Err(error) => return Err(error),
            }
        }
        Ok(result)
    }
}

/// Decodes an event.
pub(super) fn read(message: &Message<'_>) -> Option<Event> {
    match message.kind {
        wire::NEW => wire::read(message).map(Event::Begin),
        wire::DELETE => wire::read(message).map(Event::End),
        _ => None,
    }
}
