//! Limits of which each client has a share.

use std::net::IpAddr;
use std::sync::Arc;

use counting::{Share, Shares};

/// A client may have a third of what is free. One client then has a quarter of all, because it can be the cache of a whole
/// node, and several clients leave a part to others.
const FREE_DIVISOR: usize = 3;

/// Limit of all clients, such as a number of queries or bytes.
#[derive(Clone, Debug)]
pub(crate) struct ClientShares(Arc<Shares<IpAddr>>);

/// Part of a limit that a client has, until this is dropped.
pub(crate) type ClientShare = Share<IpAddr>;

impl ClientShares {
    /// Creates the shares of a limit.
    pub(crate) fn of(total_max: usize) -> Self {
        Self(Shares::with_divisor(total_max, FREE_DIVISOR))
    }

    /// Returns units for a client, unless that exceeds the limit, or the share of the client. Loopback addresses have no
    /// share.
    pub(crate) fn take(&self, client: IpAddr, units: usize) -> Option<ClientShare> {
        if client.is_loopback() {
            self.0.take_beyond_share(&client, units)
        } else {
            self.0.take_units(&client, units)
        }
    }
}
