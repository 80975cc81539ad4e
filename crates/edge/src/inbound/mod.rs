//! A client's connection, from where it was taken to where it goes on.

mod account;
mod early;
mod shared_bandwidth;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::counters::Refusal;
use crate::http;
use crate::outbound::{self, Outbound, spare};
use crate::peer::Peer;
use crate::port::{Current, Port, Seat};
use crate::proxy_protocol::{self, HEADER_BYTES_MAX, Header, Read};
use crate::relay::{BreakOff, FirstWords, Outcome, Side, end_early, relay};
use crate::settings::Frontend;
use crate::tls::{self, TlsConnection};
use crate::workers::Place;
use account::{Account, End};
pub(crate) use early::Early;
use shared_bandwidth::{Lane, SharedBandwidth};

/// How long a client has for its PROXY header: it is sent with the first packet.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client has for its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read at once of a PROXY header; most are shorter.
const HEADER_READ_BYTES: usize = 512;

/// A connection that was taken.
pub(crate) struct Arrival {
    /// The connection.
    pub stream: TcpStream,
    /// Its other end.
    pub from: SocketAddr,
    /// Where it was taken.
    pub at: SocketAddr,
    /// Whose it is.
    pub port: Arc<Port>,
    /// Its place among all that are open.
    pub seat: Seat,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(arrival: Arrival, place: Place) {
    let Arrival {
        stream,
        from,
        at,
        port,
        seat,
    } = arrival;
    // Where requests are served, it is theirs.
    let mut seat = Some(seat);
    if let Err(why) = welcome(Early::new(stream), from, at, &port, &place, &mut seat).await {
        port.counters().refused(why);
        tracing::debug!(port = %port.key, client = %from, reason = why.reason(), "a client is sent away");
    }
    drop(seat);
}

/// Asks who it is, and goes on with those who may come in.
async fn welcome(
    mut stream: Early,
    from: SocketAddr,
    at: SocketAddr,
    port: &Arc<Port>,
    place: &Place,
    seat: &mut Option<Seat>,
) -> Result<(), Refusal> {
    let mut peer = Peer::direct(from, at);
    let admitted = introduce(&mut stream, &mut peer, port, seat).await;
    if let Err(why) = admitted {
        stream.break_off();
        return Err(why);
    }
    let current = port.current();
    match &current.listener.frontend {
        Frontend::Tcp => {
            stream.share(bandwidth(port, &current));
            forward(&mut stream, &peer, port, &current, place).await
        }
        Frontend::Ssl(_) => {
            Box::pin(async move {
                let mut stream = shake_hands(stream, &mut peer, port, &current).await?;
                stream.carrier_mut().share(bandwidth(port, &current));
                forward(&mut stream, &peer, port, &current, place).await
            })
            .await
        }
        Frontend::Http { .. } => {
            stream.share(bandwidth(port, &current));
            Box::pin(http::serve(stream, peer, port.clone(), seat.take())).await;
            Ok(())
        }
        Frontend::Https(_) => {
            let mut stream = Box::pin(shake_hands(stream, &mut peer, port, &current)).await?;
            stream.carrier_mut().share(bandwidth(port, &current));
            Box::pin(http::serve(stream, peer, port.clone(), seat.take())).await;
            Ok(())
        }
        // Settings have changed since the connection was made.
        Frontend::Udp => Err(Refusal::NoBackend),
    }
}

/// Finds out for whom the connection is, and whether that client may come in.
async fn introduce(
    stream: &mut Early,
    peer: &mut Peer,
    port: &Port,
    seat: &mut Option<Seat>,
) -> Result<(), Refusal> {
    if port.expects_header_from(peer.transport.ip()) {
        let header = timeout(HEADER_TIMEOUT, Box::pin(read_header(stream))).await;
        let header = header.ok().flatten().ok_or(Refusal::ProxyHeader)?;
        if let Header::For(addresses) = header {
            (peer.client, peer.destination) = (addresses.source, addresses.destination);
        }
    }
    // It is there until requests are served.
    seat.as_mut().map_or(Ok(()), |seat| port.admit(peer.ip(), seat))
}

/// Reads a PROXY header; what follows it stays to be read. Nothing if it is malformed or breaks off.
async fn read_header(stream: &mut Early) -> Option<Header> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; HEADER_READ_BYTES];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(more.get(..count)?);
        match proxy_protocol::read(&bytes) {
            Ok(Read::Incomplete) if bytes.len() < HEADER_BYTES_MAX => {}
            Ok(Read::Incomplete) => return None,
            Ok(Read::Complete { header, bytes: taken }) => {
                stream.put_back(bytes.get(taken..)?);
                return Some(header);
            }
            Err(error) => {
                tracing::debug!(%error, "a client is sent away");
                return None;
            }
        }
    }
}

/// Completes the TLS handshake, and says in `peer` what it agreed on.
async fn shake_hands(
    stream: Early,
    peer: &mut Peer,
    port: &Port,
    current: &Current,
) -> Result<TlsConnection<Early>, Refusal> {
    let ending = current.tls.as_ref().ok_or(Refusal::NoCertificate)?;
    let accepted = timeout(HANDSHAKE_TIMEOUT, ending.accept(stream)).await;
    match accepted {
        Ok(Ok(stream)) => {
            let connection = stream.get_ref().1;
            let is_resumed = connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            port.counters().handshake(is_resumed);
            peer.tls = Some(Arc::new(tls::agreed(connection)));
            Ok(TlsConnection::new(stream))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, client = %peer.client, "a TLS handshake failed");
            Err(Refusal::Handshake)
        }
        Err(_) => Err(Refusal::Handshake),
    }
}

/// The part of a connection in the Service's bandwidth, if that is bound. Who it is and what TLS agrees on is found out before:
/// many connections that take their turns do not keep new ones out.
fn bandwidth(port: &Port, current: &Current) -> Option<Box<SharedBandwidth>> {
    let [received, sent] = port.turns(&current.service.policy.limits);
    if received.is_none() && sent.is_none() {
        return None;
    }
    let lane = |turns| Lane::new(turns, port.turns_began().into());
    Some(Box::new(SharedBandwidth {
        received: received.map(lane),
        sent: sent.map(lane),
    }))
}

/// Joins a client with a backend.
async fn forward<S: Side>(
    stream: &mut S,
    peer: &Peer,
    port: &Arc<Port>,
    current: &Current,
    place: &Place,
) -> Result<(), Refusal> {
    let mut account = Account::new(peer, port, current);
    let mut first = match stream.bare().map(FirstWords::hear).transpose() {
        Ok(first) => first.unwrap_or_default(),
        Err(error) => {
            tracing::trace!(%error, "a client has gone before a backend was called");
            stream.break_off();
            account.end = Some(End::Relayed(Outcome::Broken));
            return Ok(());
        }
    };
    let connected = Box::pin(outbound::connect_any(port, peer, &mut first)).await;
    let Ok((chosen, mut backend)) = connected else {
        account.end = Some(End::NoBackend);
        end_early(stream);
        return Err(Refusal::NoBackend);
    };
    place.belongs_to(&chosen.backend);
    let is_late = chosen.backend.has_left() && chosen.backend.is_cut_off();
    account.chosen = Some(chosen);
    if is_late {
        // Its connections were cut off before this was known to be one. What it was told was not all.
        backend.break_off();
        account.passed.received_bytes = first.taken_bytes();
        port.counters().received(first.taken_bytes());
        account.end = Some(End::BackendLeft);
        end_early(stream);
        return Ok(());
    }
    let (idle, counters) = (current.service.policy.idle_timeout, port.counters());
    let is_near = first.are_taken();
    let outcome = relay(stream, &mut backend, first, idle, counters, &mut account.passed).await;
    account.end = Some(End::Relayed(outcome));
    if let (Outcome::Finished, Outbound::Plain(backend), true) = (outcome, backend, is_near)
        && account.passed.is_little()
        && let Some(chosen) = &account.chosen
        && !chosen.backend.has_left()
    {
        spare::give_back(backend, chosen.backend.address);
    }
    Ok(())
}
