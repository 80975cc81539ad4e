//! Queries on connections (RFC 7766): pipelined, answered as answers come, bounded in every way.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::respond::{Pending, Reaction, Responder, Transport};
use crate::records::Scratch;
use crate::wire::{HEADER_OCTETS, TCP_OCTETS_MAX};

/// Open connections. More are closed at once: each costs a descriptor, and its peer can ask over UDP.
const CONNECTIONS_MAX: usize = 2_048;
/// Answers of one connection that wait for upstream or for the peer to read. Then no more queries are
/// read from it.
const PENDING_MAX: usize = 16;
/// How long a whole query may be awaited on a connection (RFC 7766 section 6.2.3).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take to read an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: out of descriptors, most often, which takes time to pass.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, responder: Arc<Responder>) {
    let admission = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a DNS connection ended badly");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => match admission.clone().try_acquire_owned() {
                Ok(permit) => {
                    let responder = responder.clone();
                    connections.spawn(async move {
                        if let Err(error) = serve(stream, responder).await {
                            tracing::debug!(%peer, %error, "connection closed");
                        }
                        drop(permit);
                    });
                }
                Err(_) => tracing::debug!(%peer, "too many connections"),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, responder: Arc<Responder>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let (answers, queue) = mpsc::channel(PENDING_MAX);
    // Whichever ends first ends the other: a peer that reads nothing is not read from either.
    let writing = write_answers(writer, queue);
    let reading = read_queries(reader, responder, answers);
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

async fn read_queries(
    mut reader: OwnedReadHalf,
    responder: Arc<Responder>,
    answers: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut query = Vec::new();
    // A place in the queue is taken before a query is read: that bounds what is pending.
    while let Ok(place) = answers.clone().reserve_owned().await {
        if !read_query(&mut reader, &mut query).await? {
            break;
        }
        match respond(&responder, &query) {
            Ok(answer) => {
                place.send(answer);
            }
            Err(pending) => {
                let (responder, message) = (responder.clone(), query.clone());
                tokio::spawn(async move {
                    place.send(responder.complete(*pending, &message, Transport::Tcp).await);
                });
            }
        }
    }
    Ok(())
}

/// The answer, or what to ask upstream for it. The room for the longest answer belongs to the thread, so
/// that idle connections hold next to nothing.
fn respond(responder: &Responder, query: &[u8]) -> Result<Vec<u8>, Box<Pending>> {
    thread_local! {
        static ROOM: RefCell<(Vec<u8>, Scratch)> = RefCell::new((vec![0; TCP_OCTETS_MAX], Scratch::default()));
    }
    ROOM.with_borrow_mut(|(buffer, scratch)| {
        match responder.respond(query, Transport::Tcp, buffer, scratch) {
            Reaction::Send(octets) => Ok(buffer.get(..octets).unwrap_or_default().to_vec()),
            Reaction::Ask(pending) => Err(pending),
        }
    })
}

/// Reads one query; `false` at the end of the connection.
async fn read_query(reader: &mut OwnedReadHalf, query: &mut Vec<u8>) -> io::Result<bool> {
    let reading = async {
        let length = match reader.read_u16().await {
            Ok(length) => usize::from(length),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        };
        if length < HEADER_OCTETS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        query.resize(length, 0);
        reader.read_exact(query).await?;
        Ok(true)
    };
    // An idle peer is no error.
    timeout(IDLE_TIMEOUT, reading).await.unwrap_or(Ok(false))
}

async fn write_answers(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(mut answer) = queue.recv().await {
        // An empty answer stands for silence.
        let Some(length) = u16::try_from(answer.len()).ok().filter(|length| *length > 0) else {
            continue;
        };
        answer.splice(..0, length.to_be_bytes());
        timeout(WRITE_TIMEOUT, writer.write_all(&answer)).await??;
    }
    writer.shutdown().await
}
