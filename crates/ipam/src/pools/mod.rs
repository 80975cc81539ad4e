//! Load balancer IPs: pools of ranges, holders of addresses, and sharing.
//!
//! [`Pools`] is in memory only. After a restart it is rebuilt from the objects of the holders by
//! [`Pools::restore`], before anything is assigned. An address has one holder, or several that agreed to share it.
//! An assigned address is never assigned to another holder.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::net::IpAddr;
//!
//! use ipam::pools::{Family, FamilyPolicy, Holder, Pool, Pools, Request, Sharing};
//!
//! let address: IpAddr = "192.0.2.10".parse().expect("an address");
//! let mut pools = Pools::default();
//! pools.set("public", Pool { blocks: vec![address..=address], is_automatic: true, ..Pool::default() });
//!
//! let eligible: BTreeSet<_> = pools.names().cloned().collect();
//! let [web, api] = ["default/web", "default/api"].map(Holder::from);
//! let request = |holder| Request {
//!     holder,
//!     families: &[Family::V4],
//!     family_policy: FamilyPolicy::All,
//!     addresses: &[],
//!     pool: None,
//!     eligible: &eligible,
//!     sharing: Sharing::default(),
//! };
//! assert_eq!(pools.assign(&request(&web)).expect("a free address"), [address]);
//! assert!(pools.assign(&request(&api)).is_err(), "the pool is exhausted");
//! ```

mod pool;
mod sharing;

pub use api::ip::Family;
pub use pool::Pool;
pub use sharing::{NotShared, PortUse, ProtocolPort, Sharing};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use pool::PoolSet;

/// Holder of addresses: `namespace/name` of a Service.
pub type Holder = Arc<str>;

/// Policy for IP families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// One address of each family.
    All,
    /// One address of each available family. At least one family must be available.
    Any,
}

/// A request for addresses.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// Holder of the assigned addresses.
    pub holder: &'r Holder,
    /// Families of the addresses, each at most once, in this order.
    pub families: &'r [Family],
    /// Policy for IP families.
    pub family_policy: FamilyPolicy,
    /// Requested addresses; empty for any.
    pub addresses: &'r [IpAddr],
    /// Requested pool; `None` for any.
    pub pool: Option<&'r str>,
    /// Pools that the holder may use.
    pub eligible: &'r BTreeSet<Arc<str>>,
    /// Sharing of the addresses.
    pub sharing: Sharing,
}

/// Failure to assign addresses. All but the first four may go away when other holders release addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// No pool exists.
    #[error("there is no AddressPool: create one with addresses of this network")]
    NoPools,
    /// The requested pool does not exist.
    #[error("there is no AddressPool {0:?}")]
    UnknownPool(String),
    /// Scope or selectors of the pool exclude the holder.
    #[error("AddressPool {0:?} is not for this Service: its scope or its selectors exclude it")]
    NotForHolder(String),
    /// No pool that the holder may use has addresses of the family.
    #[error("no pool has an address of family {0}")]
    NoFamily(Family),
    /// Only pools without automatic assignment have addresses of the family.
    #[error("no pool of family {0} assigns its addresses automatically: request one of {1} by annotation")]
    NotAutomatic(Family, String),
    /// All addresses are in use.
    #[error("all addresses of family {0} are in use in {1}")]
    Exhausted(Family, String),
    /// No pool that the holder may use contains the requested address.
    #[error("no pool that this Service may use has the address {0}")]
    OutsideOfPools(IpAddr),
    /// The requested addresses do not match the families.
    #[error("the requested addresses are not one of each family that the Service has: {0}")]
    Families(String),
    /// Another holder has the requested address.
    #[error("address {address} is held by {holder}, {reason}")]
    Held {
        /// Requested address.
        address: IpAddr,
        /// A holder of the address.
        holder: Holder,
        /// Reason why it is not shared.
        reason: NotShared,
    },
}

/// All pools and their holders.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    pools: PoolSet,
    /// Holders of each address with their sharing; never empty.
    held: BTreeMap<IpAddr, BTreeMap<Holder, Sharing>>,
    by_holder: BTreeMap<Holder, Vec<IpAddr>>,
    /// Addresses by sharing key.
    by_key: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Pools {
    /// Adds a pool, or replaces the one with this name. Holders keep their addresses.
    pub fn set(&mut self, name: &str, pool: Pool) {
        self.pools.set(name, pool, self.held.keys().copied());
    }

    /// Removes a pool. Holders keep its addresses until their next request.
    pub fn remove(&mut self, name: &str) {
        self.pools.remove(name);
    }

    /// Returns the names of the pools.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pools.names()
    }

    /// Returns the number of addresses of a family in a pool, and the number of them in use; `None` without such a
    /// pool or addresses.
    pub fn usage(&self, name: &str, family: Family) -> Option<(u64, u64)> {
        self.pools.usage(name, family)
    }

    /// Returns the addresses of a holder.
    pub fn of(&self, holder: &str) -> &[IpAddr] {
        self.by_holder.get(holder).map_or(&[], Vec::as_slice)
    }

    /// Returns the sharing of a holder's addresses; `None` if it has none, or no sharing key.
    pub fn sharing_of(&self, holder: &str) -> Option<&Sharing> {
        let address = self.of(holder).first()?;
        let sharing = self.held.get(address)?.get(holder);
        sharing.filter(|sharing| sharing.key().is_some())
    }

    /// Returns the holders of an address.
    pub fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Holder> {
        self.held.get(&address).into_iter().flat_map(BTreeMap::keys)
    }

    /// Records the addresses in the status of a holder, regardless of the pools, after a restart. Addresses of
    /// other holders that do not share them are skipped. Returns true if none was skipped.
    pub fn restore(&mut self, holder: &Holder, addresses: &[IpAddr], sharing: &Sharing) -> bool {
        self.release(holder);
        let (kept, lost): (Vec<_>, Vec<_>) = addresses
            .iter()
            .copied()
            .partition(|address| self.sharing_conflict(*address, holder, sharing).is_none());
        self.record_assignment(holder, kept, sharing);
        lost.is_empty()
    }

    /// Assigns addresses. Addresses of the holder that satisfy the request are kept, so repeating a request changes
    /// nothing. If the request fails, the holder has no addresses.
    ///
    /// # Errors
    ///
    /// Returns [`AssignError`] if the request cannot be satisfied.
    pub fn assign(&mut self, request: &Request<'_>) -> Result<Vec<IpAddr>, AssignError> {
        let before = self.of(request.holder).to_vec();
        self.release(request.holder);
        let assigned = self.choose(request, &before)?;
        self.record_assignment(request.holder, assigned.clone(), &request.sharing);
        Ok(assigned)
    }

    /// Releases all addresses of a holder; returns true if there were any.
    pub fn release(&mut self, holder: &str) -> bool {
        let Some(addresses) = self.by_holder.remove(holder) else {
            return false;
        };
        for address in addresses {
            let Some(holders) = self.held.get_mut(&address) else {
                continue;
            };
            if let Some(sharing) = holders.remove(holder)
                && let Some(key) = sharing.key()
                && !holders.values().any(|other| other.key() == Some(key))
                && let Some(shared) = self.by_key.get_mut(key)
            {
                shared.remove(&address);
                if shared.is_empty() {
                    self.by_key.remove(key);
                }
            }
            if holders.is_empty() {
                self.held.remove(&address);
                self.pools.free(address);
            }
        }
        true
    }

    fn record_assignment(&mut self, holder: &Holder, addresses: Vec<IpAddr>, sharing: &Sharing) {
        if addresses.is_empty() {
            return;
        }
        for address in &addresses {
            self.pools.take(*address);
            let holders = self.held.entry(*address).or_default();
            holders.insert(Arc::clone(holder), sharing.clone());
            if let Some(key) = sharing.key() {
                self.by_key.entry(key.to_owned()).or_default().insert(*address);
            }
        }
        self.by_holder.insert(Arc::clone(holder), addresses);
    }

    /// Chooses addresses: the requested ones, or else one of each family, from one pool if possible.
    fn choose(&self, request: &Request<'_>, before: &[IpAddr]) -> Result<Vec<IpAddr>, AssignError> {
        if self.pools.is_empty() {
            return Err(AssignError::NoPools);
        }
        if let Some(name) = request.pool {
            if !self.pools.has(name) {
                return Err(AssignError::UnknownPool(name.to_owned()));
            }
            if !request.eligible.contains(name) {
                return Err(AssignError::NotForHolder(name.to_owned()));
            }
        }
        if !request.addresses.is_empty() {
            return self.requested(request);
        }
        if let Some(chosen) = self.choose_from_one_pool(request, before) {
            return Ok(chosen);
        }
        let mut chosen = Vec::new();
        let mut first_error = None;
        for family in request.families {
            match self.choose_address(request, *family, before) {
                Ok(address) => chosen.push(address),
                Err(error) if request.family_policy == FamilyPolicy::All => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) if chosen.is_empty() => Err(error),
            _ => Ok(chosen),
        }
    }

    /// Returns addresses of all families from one pool (LBM-07); `None` if that is impossible, or if the holder has
    /// addresses of several pools.
    fn choose_from_one_pool(&self, request: &Request<'_>, before: &[IpAddr]) -> Option<Vec<IpAddr>> {
        if request.families.len() < 2 {
            return None;
        }
        let usable: Vec<&Arc<str>> = self.usable(request).collect();
        let is_kept = |address: &IpAddr| {
            request.families.contains(&Family::of(*address))
                && usable.iter().any(|name| self.pools.contains(name, *address))
                && self
                    .sharing_conflict(*address, request.holder, &request.sharing)
                    .is_none()
        };
        let kept: Vec<IpAddr> = before.iter().copied().filter(is_kept).collect();
        usable.iter().find_map(|name| {
            let is_open = request.pool.is_some() || !kept.is_empty() || self.pools.is_automatic(name);
            let has_kept = kept.iter().all(|address| self.pools.contains(name, *address));
            if !is_open || !has_kept {
                return None;
            }
            let request = Request {
                pool: Some(name),
                ..request.clone()
            };
            let families = request.families.iter();
            let chosen = families.map(|family| self.choose_address(&request, *family, before).ok());
            chosen.collect()
        })
    }

    /// Returns the requested addresses.
    fn requested(&self, request: &Request<'_>) -> Result<Vec<IpAddr>, AssignError> {
        let requested: Vec<Family> = request
            .addresses
            .iter()
            .map(|address| Family::of(*address))
            .collect();
        let is_each_once = requested.iter().collect::<BTreeSet<_>>().len() == requested.len();
        let are_all_known = requested.iter().all(|family| request.families.contains(family));
        let is_enough =
            request.family_policy == FamilyPolicy::Any || requested.len() == request.families.len();
        if !is_each_once || !are_all_known || !is_enough {
            let families: Vec<&str> = request.families.iter().map(|family| family.name()).collect();
            return Err(AssignError::Families(families.join(", ")));
        }
        for address in request.addresses {
            let has_it = |name: &&Arc<str>| self.pools.contains(name, *address);
            if !self.usable(request).any(|name| has_it(&name)) {
                return Err(AssignError::OutsideOfPools(*address));
            }
            if let Some((holder, reason)) = self.sharing_conflict(*address, request.holder, &request.sharing)
            {
                return Err(AssignError::Held {
                    address: *address,
                    holder,
                    reason,
                });
            }
        }
        Ok(request.addresses.to_vec())
    }

    /// Returns the previous address of a family, or else an address that can be shared, or else a free address.
    fn choose_address(
        &self,
        request: &Request<'_>,
        family: Family,
        before: &[IpAddr],
    ) -> Result<IpAddr, AssignError> {
        let having: Vec<&Arc<str>> = self
            .usable(request)
            .filter(|name| self.pools.usage(name, family).is_some())
            .collect();
        if having.is_empty() {
            return Err(AssignError::NoFamily(family));
        }
        let kept = before.iter().find(|address| {
            Family::of(**address) == family
                && having.iter().any(|name| self.pools.contains(name, **address))
                && self
                    .sharing_conflict(**address, request.holder, &request.sharing)
                    .is_none()
        });
        if let Some(kept) = kept {
            return Ok(*kept);
        }
        let open: Vec<&Arc<str>> = having
            .iter()
            .copied()
            .filter(|name| request.pool.is_some() || self.pools.is_automatic(name))
            .collect();
        if open.is_empty() {
            return Err(AssignError::NotAutomatic(family, join_names(&having)));
        }
        let shared = request.sharing.key().and_then(|key| self.by_key.get(key));
        let shared = shared.into_iter().flatten().copied().find(|address| {
            Family::of(*address) == family
                && open.iter().any(|name| self.pools.contains(name, *address))
                && self
                    .sharing_conflict(*address, request.holder, &request.sharing)
                    .is_none()
        });
        shared
            .or_else(|| open.iter().find_map(|name| self.pools.first_free(name, family)))
            .ok_or_else(|| AssignError::Exhausted(family, join_names(&open)))
    }

    /// Returns the pools that can satisfy the request, best first.
    fn usable<'s>(&'s self, request: &'s Request<'_>) -> impl Iterator<Item = &'s Arc<str>> {
        self.pools.by_priority().filter(|name| {
            request.eligible.contains(*name) && request.pool.is_none_or(|requested| ***name == *requested)
        })
    }

    /// Returns a holder that prevents `holder` from having `address`, and the reason.
    fn sharing_conflict(
        &self,
        address: IpAddr,
        holder: &str,
        sharing: &Sharing,
    ) -> Option<(Holder, NotShared)> {
        let others = self.held.get(&address)?.iter();
        let mut others = others.filter(|(other, _)| &***other != holder);
        others.find_map(|(other, theirs)| Some((Arc::clone(other), sharing.sharing_conflict(theirs)?)))
    }
}

fn join_names(names: &[&Arc<str>]) -> String {
    let names: Vec<&str> = names.iter().map(|name| &***name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
