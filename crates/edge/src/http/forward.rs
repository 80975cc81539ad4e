//! What of a request's and an answer's headers goes on to the other side (RFC 9110, 7.6).

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Uri, Version};

#[cfg(test)]
mod tests;

/// The client's address, behind those that others told.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// `http` or `https`, as the client has it.
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The port that the client uses.
pub const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
/// Programs that run by CGI take it for the variable `HTTP_PROXY`.
const PROXY: HeaderName = HeaderName::from_static("proxy");

/// Headers that are for the next hop alone, named in `Connection` or not.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HTTP2_SETTINGS,
    PROXY,
];

/// What the edge knows of a client and tells backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSide {
    /// Its address; with PROXY protocol accepted, the one that was told.
    pub address: IpAddr,
    /// The port that it uses.
    pub port: u16,
    /// Whether it uses TLS.
    pub is_tls: bool,
}

/// How a request goes on, whatever version of HTTP its backend is spoken to in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Onward {
    host: Option<HeaderValue>,
    path: PathAndQuery,
    wants_trailers: bool,
    upgrade: Option<HeaderValue>,
}

impl Onward {
    /// Takes out of a request that was checked what is not for backends, and puts in what they are told of the client.
    pub fn new(parts: &mut Parts, host: Option<HeaderValue>, client: ClientSide) -> Self {
        let onward = Self {
            host,
            path: path(&parts.uri),
            wants_trailers: tells(&parts.headers, &TE, "trailers"),
            upgrade: upgrade(parts),
        };
        let headers = &mut parts.headers;
        remove_hop_by_hop(headers);
        remove_look_alikes(headers);
        join_cookies(headers);
        headers.insert(X_FORWARDED_FOR, forwarded_for(headers, client.address));
        let scheme = if client.is_tls { "https" } else { "http" };
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(scheme));
        headers.insert(X_FORWARDED_PORT, HeaderValue::from(client.port));
        if onward.wants_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        onward
    }

    /// Whether the client wants to change the protocol, to one that may be passed on. HTTP/1.1 alone can do that.
    pub fn wants_upgrade(&self) -> bool {
        self.upgrade.is_some()
    }

    /// Makes it a request of that version. It may be called again with another one.
    pub fn direct(&self, parts: &mut Parts, version: Version) {
        parts.version = version;
        let headers = &mut parts.headers;
        headers.remove(CONNECTION);
        if version == Version::HTTP_2 {
            // There the host is a part of the target.
            headers.remove(HOST);
            let host = self
                .host
                .as_ref()
                .map_or(&b"localhost"[..], HeaderValue::as_bytes);
            let absolute = Uri::builder()
                .scheme("https")
                .authority(host)
                .path_and_query(self.path.clone());
            parts.uri = absolute.build().unwrap_or_else(|_| Uri::from(self.path.clone()));
            return;
        }
        parts.uri = Uri::from(self.path.clone());
        if let Some(host) = &self.host {
            headers.insert(HOST, host.clone());
        }
        if let Some(protocol) = &self.upgrade {
            headers.insert(UPGRADE, protocol.clone());
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        } else if self.wants_trailers {
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
}

/// Makes an answer ready for the client. One of status 101 keeps what it says of the new protocol.
pub fn to_client(headers: &mut HeaderMap, is_switching: bool) {
    let upgrade = headers.get(UPGRADE).filter(|_| is_switching).cloned();
    if headers.contains_key(TRANSFER_ENCODING) {
        // The length that counted was another one (RFC 9112, 6.3).
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// The protocol that the client wants to change to. It is never another version of HTTP or TLS: behind that, requests would
/// reach the backend that nobody looked at. Nor is it passed on with a body, of which nobody could say where it ends.
fn upgrade(parts: &Parts) -> Option<HeaderValue> {
    let has_body = parts.headers.contains_key(TRANSFER_ENCODING)
        || parts
            .headers
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length != "0");
    if parts.version != Version::HTTP_11 || has_body || !tells(&parts.headers, &CONNECTION, "upgrade") {
        return None;
    }
    let mut protocols = parts.headers.get_all(UPGRADE).iter();
    let (protocol, None) = (protocols.next()?, protocols.next()) else {
        return None;
    };
    let text = protocol.to_str().ok()?.to_ascii_lowercase();
    let is_ours = |protocol: &str| {
        ["h2c", "h2", "http", "tls"].contains(&protocol.split('/').next().unwrap_or("").trim())
    };
    (!text.is_empty() && !text.split(',').any(is_ours)).then(|| protocol.clone())
}

/// Whether one of the list that the headers of a name make is this one, parameters aside.
fn tells(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    listed(headers, name).any(|item| {
        item.split(';')
            .next()
            .is_some_and(|item| item.trim().eq_ignore_ascii_case(wanted))
    })
}

fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = listed(headers, &CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named {
        // Without these, a request would be another one.
        if name != HOST && name != CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Takes out what backends that take `_` for `-`, as CGI does, would read as what the edge tells.
fn remove_look_alikes(headers: &mut HeaderMap) {
    let ours = [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_PORT];
    let look_alikes: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            name.as_str().contains('_') && ours.iter().any(|ours| *ours == *name.as_str().replace('_', "-"))
        })
        .cloned()
        .collect();
    for name in look_alikes {
        headers.remove(name);
    }
}

/// HTTP/2 may send cookies one by one (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if let Some(joined) = joined(headers, &COOKIE, b"; ") {
        headers.insert(COOKIE, joined);
    }
}

fn forwarded_for(headers: &HeaderMap, client: IpAddr) -> HeaderValue {
    let client = client.to_canonical().to_string();
    let before = joined(headers, &X_FORWARDED_FOR, b", ").or_else(|| headers.get(X_FORWARDED_FOR).cloned());
    let all = match before {
        Some(before) if !before.is_empty() => [before.as_bytes(), b", ", client.as_bytes()].concat(),
        _ => client.into_bytes(),
    };
    // Of values that were valid and an address, only a valid one can be made.
    HeaderValue::from_bytes(&all).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Several values of a name as one, if there are several.
fn joined(headers: &HeaderMap, name: &HeaderName, between: &[u8]) -> Option<HeaderValue> {
    let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if values.len() < 2 {
        return None;
    }
    HeaderValue::from_bytes(&values.join(between)).ok()
}

fn path(target: &Uri) -> PathAndQuery {
    let path = match target.path_and_query() {
        Some(path) if path.as_str().starts_with('?') => format!("/{}", path.as_str()).parse().ok(),
        other => other.cloned(),
    };
    path.unwrap_or(PathAndQuery::from_static("/"))
}
