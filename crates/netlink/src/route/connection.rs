//! One request and its answers on an rtnetlink socket.

use super::error::RouteError;
use super::message::Request;
use super::namespace::NetworkNamespace;
use crate::socket::{Exchange, Socket, Subsystem};

/// How often a list that a change has torn is asked for anew.
const DUMP_TRIES_MAX: usize = 10;

/// A socket to the kernel's network in one network namespace.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
}

impl Connection {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, RouteError> {
        Socket::open(Subsystem::Route)
            .map(|socket| Self { socket })
            .map_err(|source| RouteError::Socket { source })
    }

    /// Opens a socket in `namespace`, by a thread that goes there.
    pub fn open_in(namespace: &NetworkNamespace) -> Result<Self, RouteError> {
        namespace.enter(Self::open)?
    }

    /// Sends a request that changes something, and waits for its acknowledgement.
    pub(super) fn execute(&mut self, operation: String, mut request: Request) -> Result<(), RouteError> {
        request.ask_for_acknowledgement();
        let sequence = self.socket.next_sequence();
        self.socket
            .exchange(&request.finish(sequence), sequence, |_| {})
            .map(drop)
            .map_err(|source| RouteError::Kernel { operation, source })
    }

    /// Sends a request for a list, and reads each entry with `parse`, which gets what follows the netlink header.
    pub(super) fn dump<T>(
        &mut self,
        operation: &str,
        request: impl Fn() -> Request,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, RouteError> {
        let mut entries = Vec::new();
        for _ in 0..DUMP_TRIES_MAX {
            entries.clear();
            let sequence = self.socket.next_sequence();
            let Exchange { torn } = self
                .socket
                .exchange(&request().finish(sequence), sequence, |message| {
                    entries.extend(parse(message.payload));
                })
                .map_err(|source| RouteError::Kernel {
                    operation: operation.to_owned(),
                    source,
                })?;
            if !torn {
                break;
            }
        }
        Ok(entries)
    }
}
