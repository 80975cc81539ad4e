//! One resolver upstream: questions and answers, and whether it is well.
//!
//! Every question gets a socket of its own, so the kernel chooses a random source port and takes answers
//! from the one resolver only; the identifier is random too, and the question must come back (RFC 5452). Over UDP it
//! must come back in the random case that its letters were sent in (draft-vixie-dnsext-dns0x20). An answer in another
//! case is not taken: the question is asked again over TCP. A resolver that loses the case there as well is asked in
//! the client's spelling for an hour.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::identifiers::Identifiers;
use super::metrics::UpstreamCounters;
use crate::wire::{Name, Question, RelayError, Relayed, ResponseCode, kind};

/// How long one resolver has for an answer, retries over TCP included.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// Octets that a resolver is told to send at most over UDP: what fits into a packet on every path, so that
/// nothing comes in fragments, which can be forged (DNS flag day 2020).
const UDP_OCTETS: u16 = 1_232;
/// Octets of an answer over UDP that are taken, from those who send more than they were told.
const UDP_OCTETS_MAX: usize = 4_096;
/// Failures in a row after which a resolver counts as down (`max_fails` of CoreDNS' forward).
const FAILURES_MAX: u32 = 2;
/// Pause between two questions to a resolver that is down (`health_check` of CoreDNS' forward).
const HEALTH_PERIOD: Duration = Duration::from_millis(500);
/// How long a resolver that has lost the case of letters over TCP is asked in the client's spelling. It may be replaced
/// by a better one at the same address.
const CASE_LOST_PERIOD: Duration = Duration::from_secs(3_600);
/// Wrong messages on one socket after which the question is given up: somebody guesses.
const FOREIGN_MAX: usize = 64;

/// Why a resolver has given no answer. Another try later may have one.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No answer came in time.
    #[error("no answer from {upstream} within {} s", TRY_TIMEOUT.as_secs())]
    Timeout {
        /// The resolver.
        upstream: SocketAddr,
    },
    /// It could not be reached.
    #[error("cannot ask {upstream}: {source}")]
    Unreachable {
        /// The resolver.
        upstream: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// What it answered cannot be read.
    #[error("{upstream} answered with a malformed message")]
    Malformed {
        /// The resolver.
        upstream: SocketAddr,
    },
    /// It does not repeat the case of letters, and cannot be asked over TCP.
    #[error(
        "{upstream} answers with the name in another spelling, and not over TCP: {source}; \
         if it can be trusted, --forward-keep-case asks in the client's spelling"
    )]
    CaseLost {
        /// The resolver.
        upstream: SocketAddr,
        /// Why it could not be asked over TCP.
        source: io::Error,
    },
    /// No resolver is configured for the name; nothing is to be gained by asking again.
    #[error("no upstream resolver is configured")]
    NoUpstream,
    /// Too many questions are open (`max_concurrent`).
    #[error("too many questions are open upstream")]
    Overloaded,
}

/// How a resolver is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Over UDP, and over TCP for what does not fit.
    #[default]
    UdpThenTcp,
    /// Over TCP only (`force_tcp` of CoreDNS' forward).
    Tcp,
}

/// In which spelling a resolver is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// Each letter in a case chosen at random, which the answer must repeat.
    #[default]
    Random,
    /// That of the client.
    Kept,
}

/// A resolver.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    protocol: Protocol,
    spelling: Spelling,
    /// When it lost the case of letters last, over TCP, where answers cannot be forged from afar.
    case_lost: Mutex<Option<Instant>>,
    identifiers: Arc<Identifiers>,
    failures: AtomicU32,
    is_probed: AtomicBool,
    pub(super) counters: UpstreamCounters,
}

impl Upstream {
    pub(super) fn new(
        address: SocketAddr,
        protocol: Protocol,
        spelling: Spelling,
        identifiers: Arc<Identifiers>,
    ) -> Self {
        Self {
            address,
            protocol,
            spelling,
            case_lost: Mutex::default(),
            identifiers,
            failures: AtomicU32::new(0),
            is_probed: AtomicBool::new(false),
            counters: UpstreamCounters::default(),
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it has not failed too often in a row.
    pub fn is_well(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < FAILURES_MAX
    }

    /// Asks, and takes note of whether it answers. One that goes down is probed until it answers again.
    pub(super) async fn ask(self: &Arc<Self>, question: &Question) -> Result<Relayed, ForwardError> {
        let started = Instant::now();
        let upstream = self.address;
        let outcome = match timeout(TRY_TIMEOUT, self.exchange(question)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ForwardError::Timeout { upstream }),
        };
        match &outcome {
            Ok(answer) => {
                self.counters.answered(answer.code, started.elapsed());
                self.failures.store(0, Ordering::Relaxed);
            }
            Err(_) => {
                self.counters.failed();
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_MAX {
                    self.start_probing();
                }
            }
        }
        outcome
    }

    fn start_probing(self: &Arc<Self>) {
        if self.is_probed.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(upstream = %self.address, "the resolver does not answer, probing it");
        // The probe ends with the resolver that it is for.
        let probed = Arc::downgrade(self);
        tokio::spawn(async move {
            let question = Question {
                recursion_desired: false,
                ..Question::about(Name::ROOT, kind::NS)
            };
            loop {
                tokio::time::sleep(HEALTH_PERIOD).await;
                let Some(upstream) = probed.upgrade() else { return };
                match timeout(TRY_TIMEOUT, upstream.exchange(&question)).await {
                    Ok(Ok(_)) => {
                        tracing::info!(upstream = %upstream.address, "the resolver answers again");
                        upstream.failures.store(0, Ordering::Relaxed);
                        upstream.is_probed.store(false, Ordering::Relaxed);
                        return;
                    }
                    _ => upstream.counters.probe_failed(),
                }
            }
        });
    }

    async fn exchange(&self, question: &Question) -> Result<Relayed, ForwardError> {
        let answer = self.exchange_once(question, Some(UDP_OCTETS)).await?;
        // Servers that do not know EDNS say so in two ways (RFC 6891 section 7).
        let without_edns = [ResponseCode::FormatError, ResponseCode::NotImplemented];
        if without_edns.iter().any(|code| answer.code == *code as u16) && !question.dnssec_ok {
            return self.exchange_once(question, None).await;
        }
        Ok(answer)
    }

    async fn exchange_once(
        &self,
        question: &Question,
        udp_octets: Option<u16>,
    ) -> Result<Relayed, ForwardError> {
        let id = self.identifiers.next();
        let mut question = *question;
        let is_spelled = self.spells();
        if is_spelled {
            question.name = self.identifiers.spell(&question.name);
        }
        let message = question.encode(id, udp_octets);
        let mut is_respelled = false;
        if self.protocol == Protocol::UdpThenTcp {
            let answer = self.over_udp(&message, id, &question).await;
            let answer = answer.map_err(|failure| failure.of(self.address))?;
            is_respelled = is_spelled && !answer.repeats(&question.name);
            if is_respelled {
                self.counters.respelled();
            } else if !answer.truncated {
                return Ok(answer);
            }
        }
        let answer = self.over_tcp(&message, id, &question).await;
        match answer {
            Ok(answer) => {
                if is_respelled && !answer.repeats(&question.name) {
                    self.note_case_lost();
                }
                Ok(answer)
            }
            Err(Failure::Io(source)) if is_respelled => Err(ForwardError::CaseLost {
                upstream: self.address,
                source,
            }),
            Err(failure) => Err(failure.of(self.address)),
        }
    }

    /// Whether questions are asked in a random spelling.
    fn spells(&self) -> bool {
        let lost = *self.case_lost.lock().unwrap_or_else(PoisonError::into_inner);
        self.spelling == Spelling::Random
            && self.protocol == Protocol::UdpThenTcp
            && lost.is_none_or(|at| at.elapsed() >= CASE_LOST_PERIOD)
    }

    fn note_case_lost(&self) {
        *self.case_lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        tracing::warn!(
            upstream = %self.address,
            seconds = CASE_LOST_PERIOD.as_secs(),
            "the resolver does not repeat the case of letters; asked in the clients' spelling for a while, which makes \
             forged answers easier"
        );
    }

    async fn over_udp(&self, message: &[u8], id: u16, question: &Question) -> Result<Relayed, Failure> {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(self.address).await?;
        socket.send(message).await?;
        let mut buffer = vec![0; UDP_OCTETS_MAX];
        for _ in 0..FOREIGN_MAX {
            let length = socket.recv(&mut buffer).await?;
            match Relayed::read(buffer.get(..length).unwrap_or_default(), id, question) {
                Ok(answer) => return Ok(answer),
                // Anything else is late or forged; the right answer may still come.
                Err(RelayError::Foreign) => self.counters.foreign(),
                Err(RelayError::Malformed) => return Err(Failure::Malformed),
            }
        }
        Err(Failure::Malformed)
    }

    async fn over_tcp(&self, message: &[u8], id: u16, question: &Question) -> Result<Relayed, Failure> {
        let mut stream = TcpStream::connect(self.address).await?;
        let length = u16::try_from(message.len()).map_err(|_| Failure::Malformed)?;
        stream
            .write_all(&[&length.to_be_bytes(), message].concat())
            .await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        Relayed::read(&answer, id, question).map_err(|_| Failure::Malformed)
    }
}

/// Why an exchange failed, before it is said with whom.
enum Failure {
    Io(io::Error),
    Malformed,
}

impl Failure {
    fn of(self, upstream: SocketAddr) -> ForwardError {
        match self {
            Self::Io(source) => ForwardError::Unreachable { upstream, source },
            Self::Malformed => ForwardError::Malformed { upstream },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
