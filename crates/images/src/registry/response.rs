//! Bodies of responses, within a limit.

use std::time::Duration;

use reqwest::Response;

use super::error::PullError;

/// Time for a body. Manifests and configurations have some 10 KiB. Without it, a slow body would occupy a concurrent
/// pull until its deadline.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// Reads a body of at most `bytes_max`, in at most [`BODY_TIMEOUT`].
pub(super) async fn bounded_body(
    response: Response,
    bytes_max: u64,
    host: &str,
    stall_timeout: Duration,
) -> Result<Vec<u8>, PullError> {
    let body = body(response, bytes_max, host, stall_timeout);
    let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
    body.unwrap_or_else(|_| {
        let seconds = BODY_TIMEOUT.as_secs();
        let reason = format!("response that was not complete after {seconds} s");
        Err(PullError::protocol(host, reason))
    })
}

async fn body(
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
