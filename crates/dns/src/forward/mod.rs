//! Asking the resolvers upstream for what is not the cluster's.
//!
//! Every question gets a socket of its own, so the kernel chooses a random source port and takes answers
//! from the one resolver only; the identifier is random too, and the question must come back (RFC 5452).

mod resolv_conf;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use resolv_conf::{ResolvConfError, read_resolv_conf};

use crate::wire::{Query, read_answer};

/// Questions that may be open upstream at once: the `max_concurrent` of kubeadm's Corefile (DNS-28).
/// Each holds a socket and a buffer.
const IN_FLIGHT_MAX: usize = 1_000;
/// Resolvers asked for one question, one after the other.
const TRIES: usize = 2;
/// How long one resolver has for an answer.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// Octets of an answer over UDP that are taken; a longer one counts as truncated.
const UDP_OCTETS_MAX: usize = 4_096;

/// Why there is no answer from upstream. Another try later may have one.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No resolver answered in time; the client gets SERVFAIL.
    #[error("no answer from {upstream} within {} s", TRY_TIMEOUT.as_secs())]
    Timeout {
        /// The resolver asked last.
        upstream: SocketAddr,
    },
    /// A resolver could not be reached; the client gets SERVFAIL.
    #[error("cannot ask {upstream}: {source}")]
    Unreachable {
        /// The resolver asked last.
        upstream: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// No resolver is configured; nothing is to be gained by asking again.
    #[error("no upstream resolver is configured")]
    NoUpstream,
}

/// The resolvers upstream.
#[derive(Debug)]
pub struct Forwarder {
    upstreams: Vec<SocketAddr>,
    /// The resolver that is asked first. One that fails makes way for the next.
    preferred: AtomicUsize,
    in_flight: Arc<Semaphore>,
    /// Identifiers are keyed hashes of a counter, which only this process can foretell.
    identifiers: RandomState,
    counter: AtomicU64,
}

/// Leave to ask one question; see [`Forwarder::admit`].
#[derive(Debug)]
pub struct Admission(#[allow(dead_code)] OwnedSemaphorePermit); // held for its drop

impl Forwarder {
    /// Asks `upstreams`, the first of them by preference.
    pub fn new(upstreams: Vec<SocketAddr>) -> Self {
        Self {
            upstreams,
            preferred: AtomicUsize::new(0),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            identifiers: RandomState::new(),
            counter: AtomicU64::new(0),
        }
    }

    /// Whether there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty()
    }

    /// Leave to ask one question, as long as not too many are open.
    pub fn admit(&self) -> Option<Admission> {
        self.in_flight.clone().try_acquire_owned().ok().map(Admission)
    }

    /// Sends `message`, which asks `query`, under another identifier, and returns the answer with that
    /// identifier. With `whole`, a truncated answer is asked for again over TCP.
    pub async fn exchange(
        &self,
        message: &[u8],
        query: &Query,
        whole: bool,
    ) -> Result<Vec<u8>, ForwardError> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = ForwardError::NoUpstream;
        for attempt in 0..TRIES.min(self.upstreams.len() * TRIES) {
            let at = (first + attempt) % self.upstreams.len();
            let Some(&upstream) = self.upstreams.get(at) else {
                break;
            };
            let mut question = Question {
                upstream,
                message: message.to_vec(),
                query,
                id: self.identifier(),
            };
            failure = match tokio::time::timeout(TRY_TIMEOUT, question.ask(whole)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(source)) => ForwardError::Unreachable { upstream, source },
                Err(_) => ForwardError::Timeout { upstream },
            };
            let next = (at + 1) % self.upstreams.len();
            // Another question may have moved it already, and then knows as much.
            if self
                .preferred
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                tracing::debug!(%failure, "asking another resolver first");
            }
        }
        Err(failure)
    }

    fn identifier(&self) -> u16 {
        let [.., high, low] = self
            .identifiers
            .hash_one(self.counter.fetch_add(1, Ordering::Relaxed))
            .to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

/// One question to one resolver.
struct Question<'a> {
    upstream: SocketAddr,
    message: Vec<u8>,
    query: &'a Query,
    id: u16,
}

impl Question<'_> {
    async fn ask(&mut self, whole: bool) -> io::Result<Vec<u8>> {
        if let Some(id) = self.message.first_chunk_mut() {
            *id = self.id.to_be_bytes();
        }
        let answer = self.ask_over_udp().await?;
        let is_cut =
            answer.len() > UDP_OCTETS_MAX || self.read(&answer).is_some_and(|answer| answer.truncated);
        if is_cut && whole {
            self.ask_over_tcp().await
        } else {
            Ok(answer)
        }
    }

    async fn ask_over_udp(&self) -> io::Result<Vec<u8>> {
        let any: IpAddr = match self.upstream {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(self.upstream).await?;
        socket.send(&self.message).await?;
        // One octet more tells an answer that is too long from one that just fits.
        let mut buffer = vec![0; UDP_OCTETS_MAX + 1];
        loop {
            let length = socket.recv(&mut buffer).await?;
            // Anything else is late or forged; the right answer may still come.
            if buffer
                .get(..length)
                .is_some_and(|message| self.read(message).is_some())
            {
                buffer.truncate(length);
                return Ok(buffer);
            }
        }
    }

    async fn ask_over_tcp(&self) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.upstream).await?;
        let length = u16::try_from(self.message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        stream
            .write_all(&[&length.to_be_bytes(), &self.message[..]].concat())
            .await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        if self.read(&answer).is_some() {
            Ok(answer)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn read<'m>(&self, message: &'m [u8]) -> Option<crate::wire::Answer<'m>> {
        read_answer(message, self.id, &self.query.name, self.query.kind)
    }
}

/// Leaves out of `upstreams` those that are this server itself, which would ask itself for ever.
/// `own` are this machine's addresses, for sockets that listen on all of them.
pub fn without_self(upstreams: Vec<SocketAddr>, listen: &[SocketAddr], own: &[IpAddr]) -> Vec<SocketAddr> {
    let is_self = |upstream: &SocketAddr| {
        listen
            .iter()
            .filter(|listen| listen.port() == upstream.port())
            .any(|listen| {
                let everywhere = listen.ip().is_unspecified() && listen.is_ipv4() == upstream.is_ipv4();
                let here = upstream.ip().is_loopback() || own.contains(&upstream.ip());
                listen.ip() == upstream.ip() || everywhere && here
            })
    };
    let (selves, others): (Vec<_>, Vec<_>) = upstreams.into_iter().partition(is_self);
    for upstream in selves {
        tracing::warn!(%upstream, "left out as an upstream resolver: it is this server");
    }
    others
}

#[cfg(test)]
mod tests;
