//! The cookie by which a client stays with its backend.

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

/// Digits of a cookie's value.
const DIGITS: usize = 16;

/// The secrets that cookies are made of, of any length. All edges that serve the same clients need the same ones. With an
/// empty secret an address cannot be read from a cookie, but it can be found by trying all.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StickySecrets {
    /// New cookies are made of this one.
    pub current: Vec<u8>,
    /// Cookies of this one still lead to their backends, and clients get new ones in their place: so a secret is replaced
    /// without moving anybody.
    pub previous: Option<Vec<u8>>,
}

/// The secrets stay out of logs.
impl fmt::Debug for StickySecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickySecrets").finish_non_exhaustive()
    }
}

/// The keys of these secrets.
#[derive(Debug)]
pub struct StickyKeys {
    current: StickyKey,
    previous: Option<StickyKey>,
}

impl StickyKeys {
    /// Of these secrets.
    pub fn new(secrets: &StickySecrets) -> Self {
        Self {
            current: StickyKey::new(&secrets.current),
            previous: secrets.previous.as_deref().map(StickyKey::new),
        }
    }
}

/// The numbers that stand for a backend in cookies, under certain keys.
#[derive(Clone, Debug)]
pub struct Numbers {
    keys: Arc<StickyKeys>,
    current: u64,
    previous: Option<u64>,
}

impl Numbers {
    /// Of a backend of a Service.
    pub fn new(keys: &Arc<StickyKeys>, service: &ServiceName, backend: SocketAddr) -> Self {
        let previous = keys.previous.as_ref();
        Self {
            keys: Arc::clone(keys),
            current: keys.current.number(service, backend),
            previous: previous.map(|key| key.number(service, backend)),
        }
    }

    /// Whether they were made under these keys.
    pub fn are_of(&self, keys: &Arc<StickyKeys>) -> bool {
        Arc::ptr_eq(&self.keys, keys)
    }

    /// The number that clients are told.
    pub fn told(&self) -> u64 {
        self.current
    }

    /// Whether a cookie with one of these numbers means the backend.
    pub fn is_meant_by(&self, numbers: &[u64]) -> bool {
        numbers
            .iter()
            .any(|number| *number == self.current || Some(*number) == self.previous)
    }
}

/// What makes a cookie's value of a backend's address.
#[derive(Clone)]
pub struct StickyKey(hmac::Key);

/// The key stays out of logs.
impl fmt::Debug for StickyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StickyKey")
    }
}

impl StickyKey {
    /// Of a secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The number that stands for a backend of a Service.
    pub fn number(&self, service: &ServiceName, backend: SocketAddr) -> u64 {
        let signed = hmac::sign(&self.0, format!("{service} {backend}").as_bytes());
        let first = signed.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    }
}

/// All numbers that a request's cookies of this name have: another path or domain may have set one of the same name.
pub fn numbers<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = u64> + 'a {
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
}

/// `Set-Cookie` for a backend's number (RFC 6265, 4.1). `None` if the name is none that a header can have.
pub fn set_cookie(name: &str, number: u64, max_age: Option<Duration>, is_tls: bool) -> Option<HeaderValue> {
    let max_age = max_age.map_or(String::new(), |age| format!("; Max-Age={}", age.as_secs()));
    let secure = if is_tls { "; Secure" } else { "" };
    HeaderValue::try_from(format!("{name}={number:016x}; Path=/; HttpOnly{secure}{max_age}")).ok()
}
