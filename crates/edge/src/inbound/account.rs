//! What is written down of a connection that carries no requests when it has ended, however it did: also when it was cut off.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::backends::Chosen;
use crate::log::Record;
use crate::peer::Peer;
use crate::port::{Current, Port};
use crate::relay::{Outcome, Passed};

/// A connection's account: it is closed, and what it says written down, when it is dropped.
pub(super) struct Account<'a> {
    peer: &'a Peer,
    port: &'a Port,
    current: &'a Current,
    /// When it began, if that is to be written down.
    began: Option<(SystemTime, Instant)>,
    /// Where it goes. It counts as under way there until the account is closed.
    pub chosen: Option<Chosen>,
    /// What was passed on.
    pub passed: Passed,
    /// How it ended. Nobody can say so if it is cut off.
    pub end: Option<End>,
}

/// How a connection ended by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// No backend took it.
    NoBackend,
    /// The backend left while it was connected to, and gives no time to finish.
    BackendLeft,
    /// The relay ended.
    Relayed(Outcome),
}

impl<'a> Account<'a> {
    /// Of a connection whose client is known.
    pub fn new(peer: &'a Peer, port: &'a Port, current: &'a Current) -> Self {
        let began = current.log.as_ref();
        Self {
            peer,
            port,
            current,
            began: began.map(|_| (SystemTime::now(), Instant::now())),
            chosen: None,
            passed: Passed::default(),
            end: None,
        }
    }

    fn outcome(&self) -> &'static str {
        let is_left = |chosen: &Chosen| chosen.backend.is_cut_off();
        match self.end {
            Some(End::NoBackend) => "no backend",
            Some(End::Relayed(outcome)) => outcome.word(),
            Some(End::BackendLeft) => "backend left",
            None if self.chosen.as_ref().is_some_and(is_left) => "backend left",
            None => "shutdown",
        }
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        let (Some(log), Some((began, since))) = (&self.current.log, self.began) else {
            return;
        };
        log.connection(&Record {
            service: &self.port.key.service,
            port: self.port.key.port,
            began,
            duration: since.elapsed(),
            peer: self.peer,
            backend: self.chosen.as_ref().map(|chosen| chosen.backend.address),
            received_bytes: self.passed.received_bytes,
            sent_bytes: self.passed.sent_bytes,
            outcome: self.outcome(),
        });
    }
}
