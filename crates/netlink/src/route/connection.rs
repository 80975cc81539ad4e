//! Requests on an rtnetlink socket.

use super::error::RouteError;
use super::message::Request;
use super::namespace::NetworkNamespace;
use crate::socket::{Exchange, Socket, Subsystem, complete_dump};

/// An rtnetlink socket in one network namespace.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
}

impl Connection {
    /// Opens a socket in the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`RouteError::Socket`] if no socket can be opened.
    pub fn open() -> Result<Self, RouteError> {
        Socket::open(Subsystem::Route)
            .map(|socket| Self { socket })
            .map_err(|source| RouteError::Socket { source })
    }

    /// Opens a socket in `namespace`, on a thread that enters it.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the namespace cannot be entered, or no socket can be opened.
    pub fn open_in(namespace: &NetworkNamespace) -> Result<Self, RouteError> {
        namespace.enter(Self::open)?
    }

    /// Sends a request and waits for its acknowledgement.
    pub(super) fn execute(&mut self, operation: String, mut request: Request) -> Result<(), RouteError> {
        request.request_acknowledgement();
        let sequence = self.socket.next_sequence();
        self.socket
            .exchange(&request.finish(sequence), sequence, |_| {})
            .map(drop)
            .map_err(|source| RouteError::Kernel { operation, source })
    }

    /// Requests a dump and decodes the payload of each message by `parse`; starts again if a change interrupts it.
    pub(super) fn dump<T>(
        &mut self,
        operation: &str,
        request: impl Fn() -> Request,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, RouteError> {
        let dumped = complete_dump(|| -> Result<(Vec<T>, bool), RouteError> {
            let mut entries = Vec::new();
            let sequence = self.socket.next_sequence();
            let Exchange { is_inconsistent } = self
                .socket
                .exchange(&request().finish(sequence), sequence, |message| {
                    entries.extend(parse(message.payload));
                })
                .map_err(|source| RouteError::Kernel {
                    operation: operation.to_owned(),
                    source,
                })?;
            Ok((entries, is_inconsistent))
        })?;
        dumped.ok_or_else(|| RouteError::Inconsistent {
            operation: operation.to_owned(),
        })
    }
}
