//! Addresses of the node: announced addresses, addresses of a predecessor process, and draining addresses.

use std::net::IpAddr;
use std::time::Duration;

use netlink::route::RouteError;
use tokio::time::Instant;

use crate::serving::Addresses;
use crate::serving::draining_addresses::DrainingAddresses;
use crate::serving::local_addresses::LocalAddresses;
use crate::serving::server::other_processes::ProcessMark;
use crate::serving::state::OwnedAddresses;

/// Time after the start of the announcer for which addresses of a predecessor process count as owned. The announcer
/// acquires them again in this time. The announcer starts when the announcer of the predecessor has ended, after the
/// connections of the predecessor.
const INHERITANCE_DURATION: Duration = Duration::from_secs(10);

/// Addresses of the node, and their local routes.
pub(super) struct NodeAddresses {
    local: LocalAddresses,
    inherited: Option<InheritedAddresses>,
    draining: DrainingAddresses,
    /// Mark of this process; `None` if the kernel provides none.
    mark: Option<ProcessMark>,
}

/// Addresses that a predecessor process made local.
struct InheritedAddresses {
    addresses: Addresses,
    /// End of their validity; `None` until the announcer starts.
    until: Option<Instant>,
}

impl NodeAddresses {
    /// Opens the local addresses. Returns the addresses that the node owns at the start.
    pub(super) fn open(has_announcer: bool) -> Result<(Self, OwnedAddresses), RouteError> {
        // The mark precedes the list of addresses: see `NodeAddresses::remove_all`.
        let mark = ProcessMark::set()
            .inspect_err(|error| {
                tracing::warn!(%error, "addresses of this process not marked; a process that ends may remove them");
            })
            .ok();
        let local = LocalAddresses::open()?;
        let inherited = has_announcer.then(|| InheritedAddresses {
            addresses: local.present().clone(),
            until: None,
        });
        let owned = match &inherited {
            None => OwnedAddresses::All,
            Some(inherited) => OwnedAddresses::Listed(inherited.addresses.clone()),
        };
        let this = Self {
            local,
            inherited,
            draining: DrainingAddresses::default(),
            mark,
        };
        Ok((this, owned))
    }

    /// Returns the addresses to serve: announced, inherited and draining ones. `busy` returns addresses with open
    /// connections.
    pub(super) fn update(
        &mut self,
        now: Instant,
        announced: Option<Addresses>,
        busy: impl FnOnce() -> Addresses,
    ) -> OwnedAddresses {
        let mut has_expired = false;
        if let Some(inherited) = &mut self.inherited {
            if inherited.until.is_none() && announced.is_some() {
                inherited.until = Some(now + INHERITANCE_DURATION);
            }
            has_expired = inherited.until.is_some_and(|until| until <= now);
        }
        if has_expired {
            self.inherited = None;
        }
        let mut addresses = announced.unwrap_or_default();
        self.draining.update(now, &addresses, busy);
        addresses.extend(self.draining.iter());
        if let Some(inherited) = &self.inherited {
            addresses.extend(&inherited.addresses);
        }
        if has_expired {
            self.remove_late(&addresses);
        }
        OwnedAddresses::Listed(addresses)
    }

    /// Makes addresses local. Failures are logged.
    pub(super) fn add(&mut self, addresses: &Addresses) {
        for address in addresses {
            if let Err(error) = self.local.add(*address) {
                tracing::error!(%address, %error, "address not made local; clients cannot connect to it");
            }
        }
    }

    /// Removes local addresses except `addresses` and inherited ones. Failures are logged and retried at the
    /// next change.
    pub(super) fn remove_others(&mut self, addresses: &Addresses) {
        let inherited = self.inherited.as_ref().map(|inherited| &inherited.addresses);
        let others = self.local.present().difference(addresses).copied();
        let others: Vec<_> = others
            .filter(|address| inherited.is_none_or(|inherited| !inherited.contains(address)))
            .collect();
        for address in others {
            self.remove(address);
        }
    }

    /// Removes the addresses that a predecessor made local after the start of this process, except `addresses`.
    fn remove_late(&mut self, addresses: &Addresses) {
        match self.local.find_others() {
            Ok(late) => {
                for address in late.difference(addresses) {
                    self.remove(*address);
                }
            }
            Err(error) => tracing::warn!(%error, "local addresses of the predecessor not listed"),
        }
    }

    fn remove(&mut self, address: IpAddr) {
        if let Err(error) = self.local.remove(address) {
            tracing::warn!(%address, %error, "local address not removed");
        }
    }

    /// Removes all local addresses, unless another process of this host may use them. The other process removes
    /// unused addresses when inherited addresses expire.
    pub(super) async fn remove_all(&mut self) {
        if has_others(self.mark.as_ref()).await {
            tracing::info!("local addresses left to another process");
            return;
        }
        self.inherited = None;
        let addresses = self.local.present().clone();
        self.remove_others(&Addresses::new());
        // A process that has started since may have found the addresses. One that starts from now on finds none.
        if has_others(self.mark.as_ref()).await {
            self.add(&addresses);
        }
    }

    /// Returns the addresses of other nodes with connections here.
    pub(super) fn draining(&self) -> &DrainingAddresses {
        &self.draining
    }

    /// Returns the time of the next call of [`NodeAddresses::update`], if one is due.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let inherited = self.inherited.as_ref().and_then(|inherited| inherited.until);
        inherited.into_iter().chain(self.draining.next_check()).min()
    }
}

/// Returns true if another process has a mark.
async fn has_others(mark: Option<&ProcessMark>) -> bool {
    let Some(mark) = mark else {
        return false;
    };
    mark.has_others().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "other processes not looked up; local addresses are removed");
        false
    })
}

#[cfg(test)]
mod tests;
