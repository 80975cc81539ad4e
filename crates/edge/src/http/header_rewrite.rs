//! Rewriting of headers between clients and backends (RFC 9110, section 7.6).

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

/// Addresses of the client and of the proxies before the edge.
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// `http` or `https`, as the client uses it.
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Port that the client uses.
pub(super) const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
/// CGI programs read it as the variable `HTTP_PROXY`.
const PROXY: HeaderName = HeaderName::from_static("proxy");

/// Headers for the next hop only, named in `Connection` or not.
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

/// Properties of the client that backends get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientInfo {
    /// Address of the client, from the PROXY header if one is accepted.
    pub address: IpAddr,
    /// Port that it uses.
    pub port: u16,
    /// True if the client uses TLS.
    pub is_tls: bool,
}

/// Head of a forwarded request, for any version of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForwardedHead {
    host: Option<HeaderValue>,
    path: PathAndQuery,
    wants_trailers: bool,
    upgrade: Option<HeaderValue>,
}

impl ForwardedHead {
    /// Removes headers that are not for backends from a checked request, and adds those that describe the client.
    pub(super) fn new(parts: &mut Parts, host: Option<HeaderValue>, client: ClientInfo) -> Self {
        let head = Self {
            host,
            path: path(&parts.uri),
            wants_trailers: has_token(&parts.headers, &TE, "trailers"),
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
        if head.wants_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        head
    }

    /// Returns true if the client requests another protocol that may be forwarded. Only HTTP/1.1 permits that.
    pub(super) fn wants_upgrade(&self) -> bool {
        self.upgrade.is_some()
    }

    /// Completes the head for a version of HTTP, and for a connection with TLS or without. May be called again with
    /// another version.
    pub(super) fn apply_version(&self, parts: &mut Parts, version: Version, has_tls: bool) {
        parts.version = version;
        let headers = &mut parts.headers;
        headers.remove(CONNECTION);
        if version == Version::HTTP_2 {
            // HTTP/2 has the host in the target.
            headers.remove(HOST);
            let host = self
                .host
                .as_ref()
                .map_or(&b"localhost"[..], HeaderValue::as_bytes);
            let absolute = Uri::builder()
                .scheme(if has_tls { "https" } else { "http" })
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

/// Prepares the headers of a response for the client. A response with status 101 keeps its `Upgrade`.
pub(super) fn prepare_for_client(headers: &mut HeaderMap, is_switching: bool) {
    let upgrade = headers.get(UPGRADE).filter(|_| is_switching).cloned();
    if headers.contains_key(TRANSFER_ENCODING) {
        // The chunked framing had precedence over this length (RFC 9112, section 6.3).
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Returns the requested protocol, if it may be forwarded.
///
/// A switch to another version of HTTP or TLS is not forwarded, because the backend would receive unchecked requests. A
/// switch in a request with a body is not forwarded either, because the end of the body would be ambiguous.
fn upgrade(parts: &Parts) -> Option<HeaderValue> {
    let has_body = parts.headers.contains_key(TRANSFER_ENCODING)
        || parts
            .headers
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length != "0");
    if parts.version != Version::HTTP_11 || has_body || !has_token(&parts.headers, &CONNECTION, "upgrade") {
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

/// Returns true if the list in a header contains a token, regardless of parameters.
fn has_token(headers: &HeaderMap, name: &HeaderName, requested: &str) -> bool {
    tokens(headers, name).any(|item| {
        item.split(';')
            .next()
            .is_some_and(|item| item.trim().eq_ignore_ascii_case(requested))
    })
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named {
        // Without these, the request would have another meaning.
        if name != HOST && name != CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes headers that backends that read `_` as `-`, as CGI does, would take for those of the edge.
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

/// Joins cookies, which HTTP/2 may send one by one (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if let Some(joined) = joined_values(headers, &COOKIE, b"; ") {
        headers.insert(COOKIE, joined);
    }
}

fn forwarded_for(headers: &HeaderMap, client: IpAddr) -> HeaderValue {
    let client = client.to_canonical().to_string();
    let before =
        joined_values(headers, &X_FORWARDED_FOR, b", ").or_else(|| headers.get(X_FORWARDED_FOR).cloned());
    let all = match before {
        Some(before) if !before.is_empty() => [before.as_bytes(), b", ", client.as_bytes()].concat(),
        _ => client.into_bytes(),
    };
    // Cannot fail: valid values and an address make a valid value.
    HeaderValue::from_bytes(&all).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Returns the values of a name as one, if there are several.
fn joined_values(headers: &HeaderMap, name: &HeaderName, between: &[u8]) -> Option<HeaderValue> {
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
