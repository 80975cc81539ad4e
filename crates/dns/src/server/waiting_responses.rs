//! Responses that TCP clients have not received yet. Their bytes have a limit, and each client has a share of it.

use std::net::IpAddr;

use crate::client_shares::{ClientShare, ClientShares};

#[cfg(test)]
mod tests;

/// Limit of the bytes of all responses that wait: a thousand of the longest ones.
const BYTES_MAX: usize = 64 << 20;

/// Number of bytes that wait.
#[derive(Clone, Debug)]
pub(super) struct WaitingResponses(ClientShares);

/// A response within the limits, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingResponse {
    /// The message.
    pub(super) message: Vec<u8>,
    _share: ClientShare,
}

impl WaitingResponses {
    /// Creates the counts.
    pub(super) fn new() -> Self {
        Self::with_limit(BYTES_MAX)
    }

    /// Creates the counts with another limit.
    pub(super) fn with_limit(bytes_max: usize) -> Self {
        Self(ClientShares::of(bytes_max))
    }

    /// Counts a response to `client`, as [`Policy::counted_client`](super::Policy) counts it. Returns `None` if a limit is
    /// reached.
    pub(super) fn admit(&self, client: IpAddr, message: Vec<u8>) -> Option<WaitingResponse> {
        let share = self.0.take(client, message.len())?;
        Some(WaitingResponse {
            message,
            _share: share,
        })
    }
}
