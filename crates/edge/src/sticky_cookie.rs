//! Cookie of session affinity for HTTP.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::{COOKIE, HeaderMap};
use ring::hmac;

use crate::settings::ServiceName;

#[cfg(test)]
mod tests;

/// Hexadecimal digits of a cookie's value.
const DIGITS: usize = 16;
/// Ids of a request that count. Each of them is compared with each backend, and a head has room for more than 1,500.
const IDS_MAX: usize = 16;

/// Secrets from which cookie values are derived, of any length. All edges that serve the same clients need the same
/// ones. With an empty secret, a backend's address cannot be read from a cookie, but it can be found by trying all
/// addresses.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StickySecrets {
    /// Secret of new cookies.
    pub current: Vec<u8>,
    /// Secret of older cookies, which still name their backends. Clients receive new cookies in their place, so a
    /// secret can be replaced without moving a client.
    pub previous: Option<Vec<u8>>,
}

/// Secrets stay out of logs.
impl fmt::Debug for StickySecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickySecrets").finish_non_exhaustive()
    }
}

/// Keys of sticky secrets.
#[derive(Debug)]
pub struct StickyKeys {
    current: StickyKey,
    previous: Option<StickyKey>,
}

impl StickyKeys {
    /// Derives the keys of these secrets.
    pub fn new(secrets: &StickySecrets) -> Self {
        Self {
            current: StickyKey::new(&secrets.current),
            previous: secrets.previous.as_deref().map(StickyKey::new),
        }
    }
}

/// Ids of a backend in cookies, for one set of keys.
#[derive(Clone, Debug)]
pub struct CookieIds {
    keys: Arc<StickyKeys>,
    current: u64,
    previous: Option<u64>,
}

impl CookieIds {
    /// Computes the ids of a backend of a Service.
    pub fn new(keys: &Arc<StickyKeys>, service: &ServiceName, backend: SocketAddr) -> Self {
        let previous = keys.previous.as_ref();
        Self {
            keys: Arc::clone(keys),
            current: keys.current.id(service, backend),
            previous: previous.map(|key| key.id(service, backend)),
        }
    }

    /// Returns true if the ids belong to these keys.
    pub fn belong_to(&self, keys: &Arc<StickyKeys>) -> bool {
        Arc::ptr_eq(&self.keys, keys)
    }

    /// Returns the id in new cookies.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Returns true if one of these cookie ids names the backend.
    pub fn matches_any(&self, ids: &[u64]) -> bool {
        ids.iter()
            .any(|id| *id == self.current || Some(*id) == self.previous)
    }
}

/// Key by which a backend's address becomes a cookie id.
#[derive(Clone)]
pub struct StickyKey(hmac::Key);

/// The key stays out of logs.
impl fmt::Debug for StickyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StickyKey")
    }
}

impl StickyKey {
    /// Derives the key of a secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the id of a backend of a Service.
    pub fn id(&self, service: &ServiceName, backend: SocketAddr) -> u64 {
        let signed = hmac::sign(&self.0, format!("{service} {backend}").as_bytes());
        let first = signed.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    }
}

/// Returns the first ids in a request's cookies with this name. There may be several: another path or domain may have
/// set one.
pub fn ids<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = u64> + 'a {
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(move |(found, _)| *found == name)
        .filter(|(_, value)| value.len() == DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .filter_map(|(_, value)| u64::from_str_radix(value, 16).ok())
        .take(IDS_MAX)
}

/// Returns `Set-Cookie` for the id of a backend (RFC 6265, section 4.1). Returns `None` if a header cannot hold the
/// name.
pub fn set_cookie(name: &str, id: u64, max_age: Option<Duration>, is_tls: bool) -> Option<HeaderValue> {
    let max_age = max_age.map_or(String::new(), |age| format!("; Max-Age={}", age.as_secs()));
    let secure = if is_tls { "; Secure" } else { "" };
    HeaderValue::try_from(format!("{name}={id:016x}; Path=/; HttpOnly{secure}{max_age}")).ok()
}
