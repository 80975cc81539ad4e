//! Thread that destroys sockets of clients. The kernel searches its whole socket table for each network namespace.
//! This takes seconds on a node with many Pods and connections, and changes of Services must not wait for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::clients::Clients;
use crate::client_sockets::{ClientSocket, ClientSocketError, Destroyed};

/// Maximum number of waiting requests, which share one search.
const WAITING_MAX: usize = 256;

/// Sockets to destroy, and the receiver of their number.
struct Request {
    sockets: Vec<ClientSocket>,
    done: Destroyed,
}

/// Handle of the thread, which ends after the handle is dropped.
#[derive(Debug)]
pub(super) struct Destruction {
    requests: SyncSender<Request>,
}

impl Destruction {
    /// Starts the thread in the network namespace of the calling one.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError::Start`].
    pub(super) fn start(clients: Clients) -> Result<Self, ClientSocketError> {
        let (requests, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("client-sockets".to_owned())
            .spawn(move || run(&clients, &waiting))
            .map_err(ClientSocketError::Start)?;
        Ok(Self { requests })
    }

    /// Destroys sockets that are still connected to their endpoint, and passes their number to `done`. This waits only if
    /// too many requests wait.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError::Ended`].
    pub(super) fn request(
        &self,
        sockets: Vec<ClientSocket>,
        done: Destroyed,
    ) -> Result<(), ClientSocketError> {
        self.requests
            .send(Request { sockets, done })
            .map_err(|_| ClientSocketError::Ended)
    }
}

/// Serves requests until the handle is dropped.
fn run(clients: &Clients, waiting: &Receiver<Request>) {
    while let Ok(first) = waiting.recv() {
        let mut requests = vec![first];
        requests.extend(waiting.try_iter().take(WAITING_MAX));
        let sockets = requests.iter().flat_map(|request| &request.sockets);
        let mut destroyed = clients.destroy(sockets);
        for Request { sockets, done } in requests {
            let count = sockets
                .iter()
                .filter(|socket| destroyed.remove(&socket.cookie))
                .count();
            done(count);
        }
    }
}
