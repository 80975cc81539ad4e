//! Addresses of load balancers: pools of ranges, who holds which address, and who may share one.
//!
//! The book ([`Pools`]) is in memory only. It is rebuilt after a restart from what the holders' objects say
//! ([`Pools::restore`]), before anything is assigned. An address has one holder, or several that agreed to
//! share it; nothing here ever gives it to anybody else while it is held.

mod pool;
mod sharing;

pub use api::ip::Family;
pub use pool::Pool;
pub use sharing::{NotShared, PortOf, Sharing};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use pool::Book;

/// Who holds addresses: `namespace/name` of a Service.
pub type Holder = Arc<str>;

/// Which families are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An address of each.
    All,
    /// An address of each that is to be had, and of one at least.
    Any,
}

/// What somebody wants.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// Who.
    pub holder: &'r Holder,
    /// Addresses of these families, at most one of each, in this order.
    pub families: &'r [Family],
    /// Whether some of them are enough.
    pub need: Need,
    /// These addresses and no others, if there are any.
    pub addresses: &'r [IpAddr],
    /// This pool and no other.
    pub pool: Option<&'r str>,
    /// The pools that the holder may use at all.
    pub eligible: &'r BTreeSet<Arc<str>>,
    /// With whom the holder shares.
    pub sharing: Sharing,
}

/// Why somebody gets no address. All but the first four may pass when others release addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// Nothing is configured.
    #[error("there is no AddressPool: create one with addresses of this network")]
    NoPools,
    /// The pool that is asked for does not exist.
    #[error("there is no AddressPool {0:?}")]
    UnknownPool(String),
    /// Scope or selectors exclude the holder.
    #[error("AddressPool {0:?} is not for this Service: its scope or its selectors exclude it")]
    NotForHolder(String),
    /// No pool that the holder may use has such addresses.
    #[error("no pool has an address of family {0}")]
    NoFamily(Family),
    /// Only pools that must be asked for have such addresses.
    #[error("no pool of family {0} assigns its addresses automatically: ask for one of {1} by annotation")]
    NotAutomatic(Family, String),
    /// All are held.
    #[error("all addresses of family {0} are in use in {1}")]
    Exhausted(Family, String),
    /// The address that is asked for is in no pool that the holder may use.
    #[error("no pool that this Service may use has the address {0}")]
    OutsideOfPools(IpAddr),
    /// The addresses that are asked for are not of the families that are needed.
    #[error("the requested addresses are not one of each family that the Service has: {0}")]
    Families(String),
    /// Somebody else holds the address that is asked for.
    #[error("address {address} is held by {holder}, {reason}")]
    Held {
        /// The address.
        address: IpAddr,
        /// One of its holders.
        holder: Holder,
        /// Why it is not shared.
        reason: NotShared,
    },
}

/// The book of pools and holders.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    book: Book,
    /// How the holders of each address share it; never empty.
    held: BTreeMap<IpAddr, BTreeMap<Holder, Sharing>>,
    by_holder: BTreeMap<Holder, Vec<IpAddr>>,
    /// Addresses by the key under which they are shared.
    by_key: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Pools {
    /// Adds a pool, or replaces the one of that name. Who holds addresses keeps them.
    pub fn set(&mut self, name: &str, pool: Pool) {
        self.book.set(name, pool, self.held.keys().copied());
    }

    /// Takes a pool away. Who holds its addresses keeps them until asked again.
    pub fn remove(&mut self, name: &str) {
        self.book.remove(name);
    }

    /// The names of the pools.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.book.names()
    }

    /// How many addresses of a family a pool has to give, and how many of its addresses are held; `None` without
    /// such a pool or addresses of the family in it.
    pub fn usage(&self, name: &str, family: Family) -> Option<(u64, u64)> {
        self.book.usage(name, family)
    }

    /// The addresses that somebody holds.
    pub fn of(&self, holder: &str) -> &[IpAddr] {
        self.by_holder.get(holder).map_or(&[], Vec::as_slice)
    }

    /// Who holds an address.
    pub fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Holder> {
        self.held.get(&address).into_iter().flat_map(BTreeMap::keys)
    }

    /// Notes what somebody's object says that it holds, whatever the pools are; for the time after a restart.
    /// Addresses that others hold and do not share with it are left out; true if there were none.
    pub fn restore(&mut self, holder: &Holder, addresses: &[IpAddr], sharing: &Sharing) -> bool {
        self.release(holder);
        let (kept, lost): (Vec<_>, Vec<_>) = addresses
            .iter()
            .copied()
            .partition(|address| self.obstacle(*address, holder, sharing).is_none());
        self.hold(holder, kept, sharing);
        lost.is_empty()
    }

    /// Gives addresses. What the holder has it keeps, as far as it answers the request; so asking again changes
    /// nothing. If the request cannot be met, the holder keeps nothing.
    ///
    /// # Errors
    /// See [`AssignError`].
    pub fn assign(&mut self, request: &Request<'_>) -> Result<Vec<IpAddr>, AssignError> {
        let before = self.of(request.holder).to_vec();
        self.release(request.holder);
        let assigned = self.choose(request, &before)?;
        self.hold(request.holder, assigned.clone(), &request.sharing);
        Ok(assigned)
    }

    /// Frees everything that somebody holds; whether that was anything.
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
                self.book.free(address);
            }
        }
        true
    }

    fn hold(&mut self, holder: &Holder, addresses: Vec<IpAddr>, sharing: &Sharing) {
        if addresses.is_empty() {
            return;
        }
        for address in &addresses {
            self.book.take(*address);
            let holders = self.held.entry(*address).or_default();
            holders.insert(Arc::clone(holder), sharing.clone());
            if let Some(key) = sharing.key() {
                self.by_key.entry(key.to_owned()).or_default().insert(*address);
            }
        }
        self.by_holder.insert(Arc::clone(holder), addresses);
    }

    fn choose(&self, request: &Request<'_>, before: &[IpAddr]) -> Result<Vec<IpAddr>, AssignError> {
        if self.book.is_empty() {
            return Err(AssignError::NoPools);
        }
        if let Some(name) = request.pool {
            if !self.book.has(name) {
                return Err(AssignError::UnknownPool(name.to_owned()));
            }
            if !request.eligible.contains(name) {
                return Err(AssignError::NotForHolder(name.to_owned()));
            }
        }
        if !request.addresses.is_empty() {
            return self.requested(request);
        }
        let mut chosen = Vec::new();
        let mut first_error = None;
        for family in request.families {
            match self.one(request, *family, before) {
                Ok(address) => chosen.push(address),
                Err(error) if request.need == Need::All => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) if chosen.is_empty() => Err(error),
            _ => Ok(chosen),
        }
    }

    /// The addresses that are asked for.
    fn requested(&self, request: &Request<'_>) -> Result<Vec<IpAddr>, AssignError> {
        let asked: Vec<Family> = request
            .addresses
            .iter()
            .map(|address| Family::of(*address))
            .collect();
        let is_each_once = asked.iter().collect::<BTreeSet<_>>().len() == asked.len();
        let are_all_known = asked.iter().all(|family| request.families.contains(family));
        let is_enough = request.need == Need::Any || asked.len() == request.families.len();
        if !is_each_once || !are_all_known || !is_enough {
            let families: Vec<&str> = request.families.iter().map(|family| family.name()).collect();
            return Err(AssignError::Families(families.join(", ")));
        }
        for address in request.addresses {
            let has_it = |name: &&Arc<str>| self.book.contains(name, *address);
            if !self.usable(request).any(|name| has_it(&name)) {
                return Err(AssignError::OutsideOfPools(*address));
            }
            if let Some((holder, reason)) = self.obstacle(*address, request.holder, &request.sharing) {
                return Err(AssignError::Held {
                    address: *address,
                    holder,
                    reason,
                });
            }
        }
        Ok(request.addresses.to_vec())
    }

    /// An address of a family: the one that was held before, one that can be shared, a free one.
    fn one(&self, request: &Request<'_>, family: Family, before: &[IpAddr]) -> Result<IpAddr, AssignError> {
        let having: Vec<&Arc<str>> = self
            .usable(request)
            .filter(|name| self.book.usage(name, family).is_some())
            .collect();
        if having.is_empty() {
            return Err(AssignError::NoFamily(family));
        }
        let kept = before.iter().find(|address| {
            Family::of(**address) == family
                && having.iter().any(|name| self.book.contains(name, **address))
                && self
                    .obstacle(**address, request.holder, &request.sharing)
                    .is_none()
        });
        if let Some(kept) = kept {
            return Ok(*kept);
        }
        let open: Vec<&Arc<str>> = having
            .iter()
            .copied()
            .filter(|name| request.pool.is_some() || self.book.is_automatic(name))
            .collect();
        if open.is_empty() {
            return Err(AssignError::NotAutomatic(family, joined(&having)));
        }
        let shared = request.sharing.key().and_then(|key| self.by_key.get(key));
        let shared = shared.into_iter().flatten().copied().find(|address| {
            Family::of(*address) == family
                && open.iter().any(|name| self.book.contains(name, *address))
                && self
                    .obstacle(*address, request.holder, &request.sharing)
                    .is_none()
        });
        shared
            .or_else(|| open.iter().find_map(|name| self.book.first_free(name, family)))
            .ok_or_else(|| AssignError::Exhausted(family, joined(&open)))
    }

    /// The pools that the request may be met from, best first.
    fn usable<'s>(&'s self, request: &'s Request<'_>) -> impl Iterator<Item = &'s Arc<str>> {
        self.book.by_priority().filter(|name| {
            request.eligible.contains(*name) && request.pool.is_none_or(|wanted| ***name == *wanted)
        })
    }

    /// Who stands against `holder` having `address` too, and why.
    fn obstacle(&self, address: IpAddr, holder: &str, sharing: &Sharing) -> Option<(Holder, NotShared)> {
        let others = self.held.get(&address)?.iter();
        let mut others = others.filter(|(other, _)| &***other != holder);
        others.find_map(|(other, theirs)| Some((Arc::clone(other), sharing.obstacle(theirs)?)))
    }
}

fn joined(names: &[&Arc<str>]) -> String {
    let names: Vec<&str> = names.iter().map(|name| &***name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
