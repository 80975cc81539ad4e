//! A client's connection, from its acceptance until a backend or the HTTP server takes it over.

mod access_record;
mod client_stream;
mod throttle;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admission::ConnectionPermit;
use crate::connection_age::until_end_of_age;
use crate::connections::ConnectionSlot;
use crate::http;
use crate::outbound::{self, BackendStream, socket_reuse};
use crate::peer::Peer;
use crate::port::{Port, PortSettings};
use crate::proxy_protocol::{self, HEADER_BYTES_MAX, Header, ParseResult};
use crate::refusal::ConnectionRefusal;
use crate::relay::{InitialData, RelayOutcome, relay};
use crate::settings::Frontend;
use crate::stream::{AbortiveClose, RelayStream, close_early};
use crate::tls::{self, TlsConnection};
use access_record::{AccessRecord, ConnectionEnd};
use client_stream::ClientStream;
use throttle::{ConnectionBandwidth, Throttle};

/// Time within which a client must send its PROXY header, which is part of the first segment.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time within which a client has to complete its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read of a PROXY header; most headers are shorter.
const HEADER_READ_BYTES: usize = 512;

/// Accepted connection.
pub(crate) struct AcceptedConnection {
    /// Stream to the client.
    pub stream: TcpStream,
    /// Remote address.
    pub peer: SocketAddr,
    /// Address of its listener.
    pub local: SocketAddr,
    /// Port that it belongs to.
    pub port: Arc<Port>,
    /// Permit, held until the connection ends.
    pub permit: ConnectionPermit,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(connection: AcceptedConnection, slot: ConnectionSlot) {
    let AcceptedConnection {
        stream,
        peer,
        local,
        port,
        permit,
    } = connection;
    // The HTTP server takes the permit, because requests can end after their connection.
    let mut permit = Some(permit);
    let stream = ClientStream::new(stream);
    let result = admit_and_serve(stream, Peer::direct(peer, local), &port, &slot, &mut permit).await;
    if let Err(refusal) = result {
        port.counters.refused(refusal);
        tracing::debug!(port = %port.key, client = %peer, reason = refusal.reason(), "connection refused");
    }
    drop(permit);
}

/// Identifies the client and serves it if it is admitted.
async fn admit_and_serve(
    mut stream: ClientStream,
    mut peer: Peer,
    port: &Arc<Port>,
    slot: &ConnectionSlot,
    permit: &mut Option<ConnectionPermit>,
) -> Result<(), ConnectionRefusal> {
    let admitted = admit(&mut stream, &mut peer, port, permit).await;
    if let Err(refusal) = admitted {
        stream.abort_on_drop();
        return Err(refusal);
    }
    let settings = port.policy.settings();
    match &settings.listener.frontend {
        Frontend::Tcp => {
            stream.throttle(bandwidth(port, &settings));
            relay_to_backend(&mut stream, &peer, port, &settings, slot).await
        }
        // The handshake is boxed, so that a connection without TLS needs no memory for its state.
        Frontend::Ssl(_) => {
            Box::pin(async move {
                let mut stream = accept_tls(stream, &mut peer, port, &settings).await?;
                stream.carrier_mut().throttle(bandwidth(port, &settings));
                relay_to_backend(&mut stream, &peer, port, &settings, slot).await
            })
            .await
        }
        Frontend::Http { .. } => {
            stream.throttle(bandwidth(port, &settings));
            Box::pin(http::serve(stream, peer, port.clone(), permit.take())).await;
            Ok(())
        }
        Frontend::Https(_) => {
            let mut stream = Box::pin(accept_tls(stream, &mut peer, port, &settings)).await?;
            stream.carrier_mut().throttle(bandwidth(port, &settings));
            Box::pin(http::serve(stream, peer, port.clone(), permit.take())).await;
            Ok(())
        }
        // The settings have changed since the connection was accepted.
        Frontend::Udp => Err(ConnectionRefusal::NoBackend),
    }
}

/// Reads the PROXY header if one is expected, and checks the client against the limits.
async fn admit(
    stream: &mut ClientStream,
    peer: &mut Peer,
    port: &Port,
    permit: &mut Option<ConnectionPermit>,
) -> Result<(), ConnectionRefusal> {
    if port.policy.expects_proxy_header_from(peer.transport.ip()) {
        let header = timeout(HEADER_TIMEOUT, Box::pin(read_proxy_header(stream))).await;
        let header = header.ok().flatten().ok_or(ConnectionRefusal::ProxyHeader)?;
        if let Header::For(addresses) = header {
            (peer.client, peer.destination) = (addresses.source, addresses.destination);
        }
    }
    // The permit is present until the HTTP server takes it.
    permit
        .as_mut()
        .map_or(Ok(()), |permit| port.admit_client(peer.ip(), permit))
}

/// Reads a PROXY header and leaves the bytes after it to be read. Returns `None` if it is malformed or incomplete.
async fn read_proxy_header(stream: &mut ClientStream) -> Option<Header> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; HEADER_READ_BYTES];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(more.get(..count)?);
        match proxy_protocol::read(&bytes) {
            Ok(ParseResult::Incomplete) if bytes.len() < HEADER_BYTES_MAX => {}
            Ok(ParseResult::Incomplete) => return None,
            Ok(ParseResult::Complete {
                header,
                bytes: length,
            }) => {
                stream.unread(bytes.get(length..)?);
                return Some(header);
            }
            Err(error) => {
                tracing::debug!(%error, "PROXY header rejected");
                return None;
            }
        }
    }
}

/// Completes the TLS handshake and stores its result in `peer`.
async fn accept_tls(
    stream: ClientStream,
    peer: &mut Peer,
    port: &Port,
    settings: &PortSettings,
) -> Result<TlsConnection<ClientStream>, ConnectionRefusal> {
    let termination = settings.tls.as_ref().ok_or(ConnectionRefusal::NoCertificate)?;
    let accepted = timeout(HANDSHAKE_TIMEOUT, termination.accept(stream)).await;
    match accepted {
        Ok(Ok(stream)) => {
            let connection = stream.get_ref().1;
            let is_resumed = connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            port.counters.handshake(is_resumed);
            peer.tls = Some(Arc::new(tls::handshake_result(connection)));
            Ok(TlsConnection::new(stream))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, client = %peer.client, "TLS handshake failed");
            Err(ConnectionRefusal::Handshake)
        }
        Err(_) => Err(ConnectionRefusal::Handshake),
    }
}

/// Returns the connection's part of the Service's bandwidth, if that is limited. PROXY header and TLS handshake do not
/// wait for bandwidth. Connections that wait for bandwidth therefore do not delay new connections.
fn bandwidth(port: &Port, settings: &PortSettings) -> Option<Box<ConnectionBandwidth>> {
    let [received, sent] = port.admission.bandwidth(&settings.service.policy.limits);
    if received.is_none() && sent.is_none() {
        return None;
    }
    let throttle = |reservation| Throttle::new(reservation, port.admission.bandwidth_epoch().into());
    Some(Box::new(ConnectionBandwidth {
        received: received.map(throttle),
        sent: sent.map(throttle),
    }))
}

/// Connects to a backend and relays bytes until the connection ends.
async fn relay_to_backend<S: RelayStream>(
    stream: &mut S,
    peer: &Peer,
    port: &Arc<Port>,
    settings: &PortSettings,
    slot: &ConnectionSlot,
) -> Result<(), ConnectionRefusal> {
    let mut record = AccessRecord::new(peer, port, settings);
    let mut initial = match stream.plain_tcp().map(InitialData::read_available).transpose() {
        Ok(initial) => initial.unwrap_or_default(),
        Err(error) => {
            tracing::trace!(%error, "connection closed before a backend was chosen");
            stream.abort_on_drop();
            record.end = Some(ConnectionEnd::Relayed(RelayOutcome::Reset));
            return Ok(());
        }
    };
    let connected = Box::pin(outbound::connect_any(port, peer, &mut initial)).await;
    let Ok((chosen, mut backend)) = connected else {
        record.end = Some(ConnectionEnd::NoBackend);
        close_early(stream);
        return Err(ConnectionRefusal::NoBackend);
    };
    slot.set_backend(&chosen.backend);
    // The backend's connections were aborted before the slot named the backend.
    let is_late = chosen.backend.is_removed() && chosen.backend.is_cut_off();
    record.chosen = Some(chosen);
    if is_late {
        // The initial data was not all that the client has to send.
        backend.abort_on_drop();
        record.relayed.received = initial.sent_bytes();
        port.counters.received(initial.sent_bytes());
        record.end = Some(ConnectionEnd::BackendRemoved);
        close_early(stream);
        return Ok(());
    }
    let idle_timeout = settings.service.policy.idle_timeout;
    // Only sockets of near backends are reused: a far one acknowledges the end too late.
    let is_near = initial.is_sent();
    let relayed = relay(
        stream,
        &mut backend,
        initial,
        idle_timeout,
        &port.counters,
        &mut record.relayed,
    );
    let Some(outcome) = until_end_of_age(&settings.service.policy, relayed).await else {
        record.end = Some(ConnectionEnd::Age);
        close_early(stream);
        close_early(&mut backend);
        return Ok(());
    };
    record.end = Some(ConnectionEnd::Relayed(outcome));
    if is_near && outcome == RelayOutcome::Finished {
        keep_socket(backend, &record);
    }
    Ok(())
}

/// Keeps the socket of a finished connection for the next connection to the same backend.
fn keep_socket(backend: BackendStream, record: &AccessRecord<'_>) {
    if let BackendStream::Plain(backend) = backend
        && record.relayed.is_small()
        && let Some(chosen) = &record.chosen
        && !chosen.backend.is_removed()
    {
        socket_reuse::release(backend, chosen.backend.address);
    }
}
