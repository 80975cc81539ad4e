//! Clock of this host, compared with that of the API server.

use std::time::{Duration, Instant};

use client::{Client, JSON};
use http::Method;
use jiff::Timestamp;

/// Path that every user may read.
const PATH: &str = "/version";
/// Header with the time of the server.
const HEADER: &str = "date";

/// Returns the clock of this host minus the clock of the server, in seconds. The server's time has whole seconds, so the
/// result is wrong by up to half a second.
///
/// # Errors
///
/// A [`client::ClientError`] if the server does not respond.
pub(crate) async fn offset(client: &Client) -> Result<Option<f64>, client::ClientError> {
    let start = Instant::now();
    let before = Timestamp::now();
    let response = client.open(Method::GET, PATH, JSON, Default::default()).await?;
    let elapsed = start.elapsed();
    let date = response.headers().get(HEADER).and_then(|date| date.to_str().ok());
    Ok(date.and_then(|date| difference(before, elapsed, date)))
}

/// Returns the middle between request and response minus the time in a header `Date` (RFC 9110, section 5.6.7). The
/// header has whole seconds and stands for the middle of its second.
fn difference(before: Timestamp, elapsed: Duration, date: &str) -> Option<f64> {
    let date = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let own = before.as_nanosecond() as f64 / 1e9 + elapsed.as_secs_f64() / 2.0;
    let offset = own - (date.as_second() as f64 + 0.5);
    Some((offset * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests;
