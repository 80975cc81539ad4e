//! The cookie by which a client stays with its backend.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderValue;
use http::header::{COOKIE, HeaderMap};
use ring::hmac;

use crate::settings::ServiceName;

#[cfg(test)]
mod tests;

/// Digits of a cookie's value.
const DIGITS: usize = 16;

/// What makes a cookie's value of a backend's address. All edges that serve the same clients need the same.
#[derive(Clone)]
pub struct StickyKey(hmac::Key);

/// The key stays out of logs.
impl fmt::Debug for StickyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StickyKey")
    }
}

impl StickyKey {
    /// Of a secret of any length. With an empty one, an address cannot be read from a cookie, but it can be found by
    /// trying all.
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
