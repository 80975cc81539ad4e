//! Pool of a limited resource, with a limit in total and for each holder.

use std::collections::HashMap;
use std::hash::Hash;

/// Limits of a pool. `u32::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Limit of all holders together.
    pub(crate) total: u32,
    /// Limit of all holders together for a holder without access to the reserve.
    pub(crate) without_reserve: u32,
    /// Limit of one holder without access to the reserve.
    pub(crate) per_holder: u32,
    /// Limit of one holder with access to the reserve.
    pub(crate) per_reserved_holder: u32,
}

/// Access of a holder to the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveAccess {
    /// The holder may not use the reserve.
    Common,
    /// The holder may use the reserve.
    Reserved,
    /// The holder is counted, and never refused.
    Exempt,
}

/// Limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// Limit of all holders together.
    Total,
    /// Limit of the holder.
    Holder,
}

/// Held amounts by holder. A holder without an amount has no entry, so the total bounds the size.
#[derive(Debug)]
pub(crate) struct LimitedPool<K> {
    bounds: Bounds,
    held: u32,
    by_holder: HashMap<K, u32>,
}

impl<K: Eq + Hash> LimitedPool<K> {
    pub(crate) fn new(bounds: Bounds) -> LimitedPool<K> {
        LimitedPool {
            bounds,
            held: 0,
            by_holder: HashMap::new(),
        }
    }

    /// Takes an amount for a holder.
    ///
    /// # Errors
    /// Limit that is exceeded; nothing is taken.
    pub(crate) fn take(
        &mut self,
        holder: K,
        amount: u32,
        access: ReserveAccess,
    ) -> Result<(), ExceededLimit> {
        let (total, per_holder) = match access {
            ReserveAccess::Common => (self.bounds.without_reserve, self.bounds.per_holder),
            ReserveAccess::Reserved => (self.bounds.total, self.bounds.per_reserved_holder),
            ReserveAccess::Exempt => (u32::MAX, u32::MAX),
        };
        let own = self.by_holder.get(&holder).copied().unwrap_or_default();
        if own.saturating_add(amount) > per_holder {
            return Err(ExceededLimit::Holder);
        }
        if self.held.saturating_add(amount) > total {
            return Err(ExceededLimit::Total);
        }
        self.held = self.held.saturating_add(amount);
        self.by_holder.insert(holder, own.saturating_add(amount));
        Ok(())
    }

    /// Releases an amount of a holder.
    pub(crate) fn release(&mut self, holder: &K, amount: u32) {
        self.held = self.held.saturating_sub(amount);
        if let Some(own) = self.by_holder.get_mut(holder) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                self.by_holder.remove(holder);
            }
        }
    }

    /// Returns the amount that all holders hold.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }
}

#[cfg(test)]
mod tests;
