//! Bodies of responses, within a limit.

use std::time::Duration;

use reqwest::Response;

use super::error::PullError;

/// Reads a body of at most `bytes_max`.
pub(super) async fn bounded_body(
    mut response: Response,
    bytes_max: u64,
    host: &str,
    stall_timeout: Duration,
) -> Result<Vec<u8>, PullError> {
    let too_long = || PullError::protocol(host, format!("response of more than {bytes_max} bytes"));
    if response.content_length().is_some_and(|length| length > bytes_max) {
        return Err(too_long());
    }
    let mut body = Vec::new();
    let broken = |error| PullError::of_request(host, error, stall_timeout);
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if (body.len() + chunk.len()) as u64 > bytes_max {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
