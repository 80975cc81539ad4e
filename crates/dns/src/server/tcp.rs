//! Queries over TCP and TLS (RFC 7766, RFC 7858): pipelined, answered out of order, with bounded memory and time.

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

use super::connections::{ConnectionPermit, Connections, IDLE_TIMEOUT_AT_LIMIT};
use super::respond::{Peer, Reaction, Responder, Transport, WorkerState};
use super::waiting_responses::WaitingResponse;
use crate::transfer;
use crate::wire::{HEADER_BYTES, TCP_BYTES_MAX};

/// Limit of pending responses per connection. At the limit, no further queries are read from it.
const PENDING_MAX: usize = 16;
/// Idle timeout of a connection (RFC 7766 section 6.2.3).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the first byte of a query to its last; also the timeout of a TLS handshake.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for a client to read a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept. The usual cause, no free file descriptors, takes time to pass.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// State that the connections of one listener share.
pub(super) struct Acceptor {
    pub(super) responder: Arc<Responder>,
    pub(super) connections: Arc<Connections>,
    pub(super) tls: Option<TlsAcceptor>,
}

impl Acceptor {
    fn admit(&self, client: IpAddr) -> Option<ConnectionPermit> {
        let counted = self.responder.policy().counted_client(client);
        self.connections.admit(counted, self.responder.allows(client))
    }
}

/// Accepts connections until the task is aborted.
pub(super) async fn accept(listener: TcpListener, acceptor: Arc<Acceptor>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    acceptor.responder.metrics().panics.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(%error, "DNS connection task panicked");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => match acceptor.admit(peer.ip().to_canonical()) {
                Some(slot) => {
                    let acceptor = acceptor.clone();
                    connections.spawn(async move {
                        if let Err(error) = connection(stream, peer, &acceptor, slot).await {
                            tracing::debug!(%peer, %error, "connection closed");
                        }
                    });
                }
                None => {
                    let refused = &acceptor.responder.metrics().refused_connections;
                    refused.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%peer, "connection refused: connection limit reached");
                }
            },
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: &Acceptor,
    slot: ConnectionPermit,
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
    drop(slot);
    Ok(())
}

async fn serve<S: AsyncRead + AsyncWrite>(stream: S, peer: Peer, acceptor: &Acceptor) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let (responses, queue) = mpsc::channel(PENDING_MAX);
    // The end of one direction ends the other one: the server reads no queries of a client that does not read
    // responses.
    let writing = write_responses(writer, queue);
    let reading = read_queries(reader, peer, acceptor, responses);
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

/// Reads the queries of a connection. Sends the responses in the order of the queries, each when it is complete.
async fn read_queries(
    mut reader: impl AsyncRead + Unpin,
    peer: Peer,
    acceptor: &Acceptor,
    responses: mpsc::Sender<WaitingResponse>,
) -> io::Result<()> {
    let responder = &acceptor.responder;
    let waiting = &acceptor.connections.waiting;
    let client = responder.policy().counted_client(peer.address);
    let mut query = Vec::new();
    // A slot of the queue is reserved before a query is read, which bounds the number of pending queries.
    while let Ok(slot) = responses.clone().reserve_owned().await {
        if !read_query(&mut reader, &mut query, &acceptor.connections).await? {
            break;
        }
        match respond(responder, peer, &query) {
            QueryResult::Ready(response) => {
                slot.send(waiting.admit(client, response).ok_or_else(unread_bytes_error)?);
            }
            QueryResult::Forward(pending) => {
                let (responder, waiting) = (responder.clone(), waiting.clone());
                tokio::spawn(async move {
                    let response = responder.complete(*pending).await;
                    match waiting.admit(client, response) {
                        Some(response) => drop(slot.send(response)),
                        None => tracing::debug!(%client, error = %unread_bytes_error(), "response not sent"),
                    }
                });
            }
            QueryResult::Transfer(query) => {
                let Ok(_permit) = acceptor.connections.transfers.try_acquire() else {
                    return Err(io::ErrorKind::WouldBlock.into());
                };
                drop(slot);
                responder.metrics().transfers.fetch_add(1, Ordering::Relaxed);
                for message in transfer::messages(responder.zone().live(), &query) {
                    let message = waiting.admit(client, message).ok_or_else(unread_bytes_error)?;
                    if responses.send(message).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns the error of a client that leaves too many bytes unread.
fn unread_bytes_error() -> io::Error {
    io::Error::other("too many bytes of responses that clients have not received")
}

/// Next step for a query.
enum QueryResult {
    Ready(Vec<u8>),
    Forward(Box<super::respond::PendingQuery>),
    Transfer(Box<crate::wire::Query>),
}

/// Processes a query. The buffer for the longest response belongs to the thread, so that idle connections use
/// little memory.
fn respond(responder: &Responder, peer: Peer, query: &[u8]) -> QueryResult {
    thread_local! {
        static THREAD_STATE: RefCell<(Vec<u8>, Option<WorkerState>)> = const { RefCell::new((Vec::new(), None)) };
    }
    THREAD_STATE.with_borrow_mut(|(buffer, state)| {
        buffer.resize(TCP_BYTES_MAX, 0);
        let state = state.get_or_insert_with(|| responder.shared_state());
        state.use_counters_of(responder);
        let ready = |length: usize, buffer: &[u8]| buffer.get(..length).unwrap_or_default().to_vec();
        match responder.respond(query, peer, buffer, state) {
            Reaction::Send(length) => QueryResult::Ready(ready(length, buffer)),
            Reaction::SendAndPrefetch(length, question) => {
                responder.prefetch(&question);
                QueryResult::Ready(ready(length, buffer))
            }
            Reaction::Forward(pending) => QueryResult::Forward(pending),
            Reaction::Transfer(query) => QueryResult::Transfer(query),
        }
    })
}

/// Reads one query; returns `false` at the end of the connection.
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
        if length < HEADER_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        query.resize(length, 0);
        reader.read_exact(query).await?;
        Ok(true)
    };
    // The timeout ends the connection of a client that sends single bytes slowly.
    timeout(QUERY_TIMEOUT, reading)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Waits for the first byte of a query. Returns `None` if the client closes the connection or exceeds the idle
/// timeout.
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
                if idle_since.elapsed() >= IDLE_TIMEOUT_AT_LIMIT {
                    return Ok(None);
                }
            }
        }
    }
}

async fn write_responses(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<WaitingResponse>,
) -> io::Result<()> {
    while let Some(mut response) = queue.recv().await {
        let message = &mut response.message;
        // An empty response means that none is sent.
        let Some(length) = u16::try_from(message.len()).ok().filter(|length| *length > 0) else {
            continue;
        };
        message.splice(..0, length.to_be_bytes());
        timeout(WRITE_TIMEOUT, async {
            writer.write_all(message).await?;
            writer.flush().await
        })
        .await??;
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests;
