//! Queries on connections (RFC 7766, RFC 7858): pipelined, answered as answers come, bounded in every way.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connections::{Connections, IDLE_UNDER_PRESSURE, Place};
use super::respond::{Lane, Peer, Reaction, Responder, Transport};
use crate::transfer;
use crate::wire::{HEADER_OCTETS, TCP_OCTETS_MAX};

/// Answers of one connection that wait for upstream or for the peer to read. Then no more queries are
/// read from it.
const PENDING_MAX: usize = 16;
/// How long a connection may be idle (RFC 7766 section 6.2.3).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a query may take from its first octet to its last, and a TLS handshake.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a peer may take to read an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: out of descriptors, most often, which takes time to pass.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// What serves the connections of one listener.
pub(super) struct Acceptor {
    pub(super) responder: Arc<Responder>,
    pub(super) connections: Arc<Connections>,
    pub(super) tls: Option<TlsAcceptor>,
}

impl Acceptor {
    fn admit(&self, client: IpAddr) -> Option<Place> {
        self.connections.admit(client, self.responder.allows(client))
    }
}

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, acceptor: Arc<Acceptor>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    acceptor.responder.metrics().panics.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(%error, "a DNS connection ended badly");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => match acceptor.admit(peer.ip().to_canonical()) {
                Some(place) => {
                    let acceptor = acceptor.clone();
                    connections.spawn(async move {
                        if let Err(error) = connection(stream, peer, &acceptor, place).await {
                            tracing::debug!(%peer, %error, "connection closed");
                        }
                    });
                }
                None => {
                    let refused = &acceptor.responder.metrics().refused_connections;
                    refused.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%peer, "too many connections");
                }
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: &Acceptor,
    place: Place,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let peer = |transport| Peer {
        address: peer.ip().to_canonical(),
        transport,
    };
    match &acceptor.tls {
        None => serve(stream, peer(Transport::Tcp), acceptor).await?,
        Some(tls) => {
            let stream = timeout(QUERY_TIMEOUT, tls.accept(stream)).await??;
            serve(stream, peer(Transport::Tls), acceptor).await?;
        }
    }
    drop(place);
    Ok(())
}

async fn serve<S: AsyncRead + AsyncWrite>(stream: S, peer: Peer, acceptor: &Acceptor) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let (answers, queue) = mpsc::channel(PENDING_MAX);
    // Whichever ends first ends the other: a peer that reads nothing is not read from either.
    let writing = write_answers(writer, queue);
    let reading = read_queries(reader, peer, acceptor, answers);
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

async fn read_queries(
    mut reader: impl AsyncRead + Unpin,
    peer: Peer,
    acceptor: &Acceptor,
    answers: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let responder = &acceptor.responder;
    let mut query = Vec::new();
    // A place in the queue is taken before a query is read: that bounds what is pending.
    while let Ok(place) = answers.clone().reserve_owned().await {
        if !read_query(&mut reader, &mut query, &acceptor.connections).await? {
            break;
        }
        match respond(responder, peer, &query) {
            Answer::Ready(answer) => {
                place.send(answer);
            }
            Answer::Ask(pending) => {
                let responder = responder.clone();
                tokio::spawn(async move {
                    place.send(responder.complete(*pending).await);
                });
            }
            Answer::Transfer(asked) => {
                let Ok(_permit) = acceptor.connections.transfers.try_acquire() else {
                    return Err(io::ErrorKind::WouldBlock.into());
                };
                drop(place);
                responder.metrics().transfers.fetch_add(1, Ordering::Relaxed);
                for message in transfer::messages(responder.zone().live(), &asked) {
                    if answers.send(message).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
    Ok(())
}

enum Answer {
    Ready(Vec<u8>),
    Ask(Box<super::respond::Pending>),
    Transfer(Box<crate::wire::Query>),
}

/// The answer, or what to ask upstream for it. The room for the longest answer belongs to the thread, so
/// that idle connections hold next to nothing.
fn respond(responder: &Responder, peer: Peer, query: &[u8]) -> Answer {
    thread_local! {
        static ROOM: RefCell<(Vec<u8>, Option<Lane>)> = const { RefCell::new((Vec::new(), None)) };
    }
    ROOM.with_borrow_mut(|(buffer, lane)| {
        buffer.resize(TCP_OCTETS_MAX, 0);
        let lane = lane.get_or_insert_with(|| responder.shared_lane());
        lane.belongs_to(responder);
        let ready = |octets: usize, buffer: &[u8]| buffer.get(..octets).unwrap_or_default().to_vec();
        match responder.respond(query, peer, buffer, lane) {
            Reaction::Send(octets) => Answer::Ready(ready(octets, buffer)),
            Reaction::SendAndFetch(octets, question) => {
                responder.fetch(&question);
                Answer::Ready(ready(octets, buffer))
            }
            Reaction::Ask(pending) => Answer::Ask(pending),
            Reaction::Transfer(query) => Answer::Transfer(query),
        }
    })
}

/// Reads one query; `false` at the end of the connection.
async fn read_query(
    reader: &mut (impl AsyncRead + Unpin),
    query: &mut Vec<u8>,
    connections: &Connections,
) -> io::Result<bool> {
    let Some(first) = first_octet(reader, connections).await? else {
        return Ok(false);
    };
    let reading = async {
        let length = usize::from(u16::from_be_bytes([first, reader.read_u8().await?]));
        if length < HEADER_OCTETS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        query.resize(length, 0);
        reader.read_exact(query).await?;
        Ok(true)
    };
    // Who sends one octet after the other is not waited for.
    timeout(QUERY_TIMEOUT, reading)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Waits for a query to begin; nothing if the peer ends the connection or is idle for too long, which is no
/// error.
async fn first_octet(
    reader: &mut (impl AsyncRead + Unpin),
    connections: &Connections,
) -> io::Result<Option<u8>> {
    let idle_since = Instant::now();
    let mut octet = [0; 1];
    let end = tokio::time::sleep(IDLE_TIMEOUT);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            read = reader.read(&mut octet) => return Ok((read? > 0).then_some(octet[0])),
            () = &mut end => return Ok(None),
            () = connections.pressure.notified() => {
                if idle_since.elapsed() >= IDLE_UNDER_PRESSURE {
                    return Ok(None);
                }
            }
        }
    }
}

async fn write_answers(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut answer) = queue.recv().await {
        // An empty answer stands for silence.
        let Some(length) = u16::try_from(answer.len()).ok().filter(|length| *length > 0) else {
            continue;
        };
        answer.splice(..0, length.to_be_bytes());
        timeout(WRITE_TIMEOUT, async {
            writer.write_all(&answer).await?;
            writer.flush().await
        })
        .await??;
    }
    writer.shutdown().await
}
