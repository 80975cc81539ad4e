//! Upgrade of a request to SPDY or WebSocket, and negotiation of the protocol.

use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use streams::protocol::{STREAM_PROTOCOL_HEADER, negotiate};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Maximum number of protocols of a client that are read.
const PROTOCOLS_MAX: usize = 32;
const SPDY: &str = "SPDY/3.1";

/// Transport of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// SPDY/3.1.
    Spdy,
    /// WebSocket.
    WebSocket,
}

/// Reason why a connection is not upgraded.
#[derive(Debug, thiserror::Error)]
pub(in crate::server) enum UpgradeError {
    /// The request contains no supported upgrade.
    #[error("Upgrade request required")]
    NotRequested,
    /// Client and server have no protocol in common.
    #[error("unable to negotiate protocol: client supports {client:?}, server accepts {server:?}")]
    Protocol {
        /// Protocols of the client.
        client: Vec<String>,
        /// Protocols of the server.
        server: &'static [&'static str],
    },
}

/// Negotiated upgrade.
pub(super) struct Upgrade {
    /// Response that upgrades the connection.
    pub response: Response<()>,
    /// Transport of the streams.
    pub transport: Transport,
    /// Protocol of the streams.
    pub protocol: &'static str,
    /// Connection after the response.
    pub connection: OnUpgrade,
}

impl Upgrade {
    /// Negotiates one of the protocols of a transport.
    ///
    /// # Errors
    /// See [`UpgradeError`].
    pub(super) fn negotiate(
        mut request: Request<Incoming>,
        spdy: &'static [&'static str],
        websocket: &'static [&'static str],
    ) -> Result<Self, UpgradeError> {
        let headers = request.headers();
        let key = headers.get(SEC_WEBSOCKET_KEY).cloned();
        let transport = match headers.get(UPGRADE).and_then(|value| value.to_str().ok()) {
            Some(name) if name.eq_ignore_ascii_case(SPDY) => Transport::Spdy,
            Some(name) if name.eq_ignore_ascii_case("websocket") && key.is_some() => Transport::WebSocket,
            _ => return Err(UpgradeError::NotRequested),
        };
        let (header, server) = match transport {
            Transport::Spdy => (HeaderName::from_static(STREAM_PROTOCOL_HEADER), spdy),
            Transport::WebSocket => (SEC_WEBSOCKET_PROTOCOL, websocket),
        };
        let client = listed_values(headers, &header);
        let names: Vec<&str> = client.iter().map(String::as_str).collect();
        let protocol = if client.is_empty() {
            // A client that names no protocol is older than the negotiation. Commands then have the first version of
            // the protocol, and forwarded ports have the last protocol of the list.
            let first = server.iter().find(|name| name.starts_with("channel."));
            first.or(server.last()).copied()
        } else {
            negotiate(&names, server)
        };
        let protocol = protocol.ok_or(UpgradeError::Protocol {
            client: client.clone(),
            server,
        })?;
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let response_headers = response.headers_mut();
        response_headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if !client.is_empty() {
            response_headers.insert(header, HeaderValue::from_static(protocol));
        }
        match (transport, key) {
            (Transport::WebSocket, Some(key)) => {
                response_headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                // The digest in base64 is always a valid value.
                if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
                    response_headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
                }
            }
            _ => {
                response_headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
            }
        }
        Ok(Self {
            response,
            transport,
            protocol,
            connection: hyper::upgrade::on(&mut request),
        })
    }
}

/// Returns the values of a header that may occur several times and contain lists with commas.
fn listed_values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let names = texts.flat_map(|text| text.split(',')).map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .take(PROTOCOLS_MAX)
        .map(str::to_owned)
        .collect()
}
