//! One resolver: queries, responses and health.
//!
//! Protection against forged responses (RFC 5452):
//!
//! - Each query has a socket of its own. The kernel chooses a random source port and accepts datagrams of this
//!   resolver only.
//! - The identifier is random, and the question must be repeated.
//! - Over UDP, the letters of the name have random case, which the response must repeat (draft-vixie-dnsext-dns0x20).
//!   If it does not, the query is repeated over TCP. If a resolver changes the case over TCP as well, queries to it
//!   have the case of the client's query for an hour.

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
use crate::wire::{Name, Question, ResolverResponse, ResolverResponseError, ResponseCode, kind};

/// Time for one resolver to respond, retries over TCP included.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// EDNS payload size that queries announce. Responses of this size are not fragmented on common paths; fragments can be
/// forged (DNS flag day 2020).
const UDP_BYTES: u16 = 1_232;
/// Size of the receive buffer for UDP, for resolvers that exceed the announced size.
const UDP_BYTES_MAX: usize = 4_096;
/// Number of consecutive failures after which a resolver counts as down (`max_fails` of CoreDNS' forward).
const FAILURES_MAX: u32 = 2;
/// Period of health checks of a resolver that is down (`health_check` of CoreDNS' forward).
const HEALTH_CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Period in which queries have the case of the client's query, after a resolver changed the case of letters over TCP.
/// Another resolver can replace it at the same address.
const CASE_LOST_PERIOD: Duration = Duration::from_secs(3_600);
/// Limit of messages on one socket that match no query; more are attempts to guess the identifier.
const FOREIGN_MESSAGES_MAX: usize = 64;

/// Failure of a forwarded query. A retry may succeed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The resolver did not respond in time.
    #[error("no response from {upstream} within {} s", QUERY_TIMEOUT.as_secs())]
    Timeout {
        /// Address of the resolver.
        upstream: SocketAddr,
    },
    /// The resolver is not reachable.
    #[error("cannot query {upstream}: {source}")]
    Unreachable {
        /// Address of the resolver.
        upstream: SocketAddr,
        /// Error of the socket.
        source: io::Error,
    },
    /// The response is malformed.
    #[error("malformed response from {upstream}")]
    Malformed {
        /// Address of the resolver.
        upstream: SocketAddr,
    },
    /// The response does not repeat the case of letters, and TCP failed.
    #[error(
        "{upstream} changes the case of the query name over UDP and does not respond over TCP: {source}; \
         if the network to it can be trusted, set --forward-keep-case to query in the case of the client's query"
    )]
    CaseLost {
        /// Address of the resolver.
        upstream: SocketAddr,
        /// Error of the TCP connection.
        source: io::Error,
    },
    /// No resolver is configured for the name. A retry fails as well.
    #[error("expected a resolver for the name, found none; set --forward or --stub")]
    NoUpstream,
    /// The limit of open queries is reached (`max_concurrent`).
    #[error("the limit of open forwarded queries is reached; raise --forward-max-concurrent")]
    Overloaded,
}

/// Transport of forwarded queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// UDP first; TCP for truncated responses.
    #[default]
    UdpThenTcp,
    /// TCP only (`force_tcp` of CoreDNS' forward).
    Tcp,
}

/// Case of letters in forwarded queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryCase {
    /// Random case, which the response must repeat.
    #[default]
    Random,
    /// The case of the client's query.
    Client,
}

/// A resolver.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    protocol: Protocol,
    query_case: QueryCase,
    /// Time at which the resolver last changed the case of letters over TCP, where an off-path attacker cannot forge
    /// responses.
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
        query_case: QueryCase,
        identifiers: Arc<Identifiers>,
    ) -> Self {
        Self {
            address,
            protocol,
            query_case,
            case_lost: Mutex::default(),
            identifiers,
            failures: AtomicU32::new(0),
            is_probed: AtomicBool::new(false),
            counters: UpstreamCounters::default(),
        }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true unless the last queries failed.
    pub fn is_healthy(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < FAILURES_MAX
    }

    /// Sends a query and records the outcome. A resolver that goes down is probed until it responds.
    pub(super) async fn query(
        self: &Arc<Self>,
        question: &Question,
    ) -> Result<ResolverResponse, ForwardError> {
        let start = Instant::now();
        let upstream = self.address;
        let outcome = match timeout(QUERY_TIMEOUT, self.exchange(question)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ForwardError::Timeout { upstream }),
        };
        match &outcome {
            Ok(answer) => {
                self.counters.record_response(answer.code, start.elapsed());
                self.failures.store(0, Ordering::Relaxed);
            }
            Err(_) => {
                self.counters.record_failure();
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
        tracing::warn!(upstream = %self.address, "resolver down; probing");
        // A weak reference, so that the probe ends with its resolver.
        let probed = Arc::downgrade(self);
        tokio::spawn(async move {
            let question = Question {
                recursion_desired: false,
                ..Question::about(Name::ROOT, kind::NS)
            };
            loop {
                tokio::time::sleep(HEALTH_CHECK_PERIOD).await;
                let Some(upstream) = probed.upgrade() else { return };
                match timeout(QUERY_TIMEOUT, upstream.exchange(&question)).await {
                    Ok(Ok(_)) => {
                        tracing::info!(upstream = %upstream.address, "resolver up");
                        upstream.failures.store(0, Ordering::Relaxed);
                        upstream.is_probed.store(false, Ordering::Relaxed);
                        return;
                    }
                    _ => upstream.counters.record_probe_failure(),
                }
            }
        });
    }

    async fn exchange(&self, question: &Question) -> Result<ResolverResponse, ForwardError> {
        let answer = self.exchange_once(question, Some(UDP_BYTES)).await?;
        // Servers without EDNS report it in two ways (RFC 6891 section 7).
        let without_edns = [ResponseCode::FormatError, ResponseCode::NotImplemented];
        if without_edns.iter().any(|code| answer.code == *code as u16) && !question.dnssec_ok {
            return self.exchange_once(question, None).await;
        }
        Ok(answer)
    }

    /// Sends a query, over TCP after a truncated response, and returns the response.
    async fn exchange_once(
        &self,
        question: &Question,
        udp_bytes: Option<u16>,
    ) -> Result<ResolverResponse, ForwardError> {
        let id = self.identifiers.next();
        let mut question = *question;
        let has_random_case = self.uses_random_case();
        if has_random_case {
            question.name = self.identifiers.randomize_case(&question.name);
        }
        let message = question.encode(id, udp_bytes);
        let mut is_case_lost = false;
        if self.protocol == Protocol::UdpThenTcp {
            let answer = self.exchange_udp(&message, id, &question).await;
            let answer = answer.map_err(|failure| failure.of(self.address))?;
            is_case_lost = has_random_case && !answer.repeats(&question.name);
            if is_case_lost {
                self.counters.record_case_loss();
            } else if !answer.truncated {
                return Ok(answer);
            }
        }
        let answer = self.exchange_tcp(&message, id, &question).await;
        match answer {
            Ok(answer) => {
                if is_case_lost && !answer.repeats(&question.name) {
                    self.record_case_lost();
                }
                Ok(answer)
            }
            Err(Failure::Io(source)) if is_case_lost => Err(ForwardError::CaseLost {
                upstream: self.address,
                source,
            }),
            Err(failure) => Err(failure.of(self.address)),
        }
    }

    /// Returns true if the next query uses random case.
    fn uses_random_case(&self) -> bool {
        let lost = *self.case_lost.lock().unwrap_or_else(PoisonError::into_inner);
        self.query_case == QueryCase::Random
            && self.protocol == Protocol::UdpThenTcp
            && lost.is_none_or(|at| at.elapsed() >= CASE_LOST_PERIOD)
    }

    fn record_case_lost(&self) {
        *self.case_lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        tracing::warn!(
            upstream = %self.address,
            seconds = CASE_LOST_PERIOD.as_secs(),
            "resolver changes the case of letters; random case suspended, which makes forged responses easier"
        );
    }

    async fn exchange_udp(
        &self,
        message: &[u8],
        id: u16,
        question: &Question,
    ) -> Result<ResolverResponse, Failure> {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(self.address).await?;
        socket.send(message).await?;
        let mut buffer = vec![0; UDP_BYTES_MAX];
        for _ in 0..FOREIGN_MESSAGES_MAX {
            let length = socket.recv(&mut buffer).await?;
            match ResolverResponse::read(buffer.get(..length).unwrap_or_default(), id, question) {
                Ok(answer) => return Ok(answer),
                // Any other message is late or forged; the response can still arrive.
                Err(ResolverResponseError::Mismatch) => self.counters.record_foreign_message(),
                Err(ResolverResponseError::Malformed) => return Err(Failure::Malformed),
            }
        }
        Err(Failure::Malformed)
    }

    async fn exchange_tcp(
        &self,
        message: &[u8],
        id: u16,
        question: &Question,
    ) -> Result<ResolverResponse, Failure> {
        let mut stream = TcpStream::connect(self.address).await?;
        let length = u16::try_from(message.len()).map_err(|_| Failure::Malformed)?;
        stream
            .write_all(&[&length.to_be_bytes(), message].concat())
            .await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        ResolverResponse::read(&answer, id, question).map_err(|_| Failure::Malformed)
    }
}

/// Failure of an exchange, without the address of the resolver.
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
