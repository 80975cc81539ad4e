//! Parts of something that is there only so often: a bound for all together, and a part for each holder.

use std::collections::HashMap;
use std::hash::Hash;

/// Bounds of what can be held at a time. `u32::MAX` is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// All holders together.
    pub(crate) total: u32,
    /// All holders together, as long as only such hold as may not use the reserve.
    pub(crate) without_reserve: u32,
    /// One holder that may not use the reserve.
    pub(crate) per_holder: u32,
    /// One holder that may.
    pub(crate) per_reserved_holder: u32,
}

/// A holder's claim on the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// None.
    Common,
    /// The holder may use the reserve.
    Reserved,
    /// The holder is counted, but never refused.
    Exempt,
}

/// The bound that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// That of all holders together.
    Total,
    /// That of the holder.
    Holder,
}

/// What is held, by holder. It knows only holders that hold something, so its size is bounded by the total.
#[derive(Debug)]
pub(crate) struct Portions<K> {
    bounds: Bounds,
    held: u32,
    by_holder: HashMap<K, u32>,
}

impl<K: Eq + Hash> Portions<K> {
    pub(crate) fn new(bounds: Bounds) -> Portions<K> {
        Portions {
            bounds,
            held: 0,
            by_holder: HashMap::new(),
        }
    }

    /// Takes an amount for a holder.
    ///
    /// # Errors
    /// The bound that stands in the way; nothing is taken then.
    pub(crate) fn take(&mut self, holder: K, amount: u32, claim: Claim) -> Result<(), Exceeded> {
        let (total, per_holder) = match claim {
            Claim::Common => (self.bounds.without_reserve, self.bounds.per_holder),
            Claim::Reserved => (self.bounds.total, self.bounds.per_reserved_holder),
            Claim::Exempt => (u32::MAX, u32::MAX),
        };
        let own = self.by_holder.get(&holder).copied().unwrap_or_default();
        if own.saturating_add(amount) > per_holder {
            return Err(Exceeded::Holder);
        }
        if self.held.saturating_add(amount) > total {
            return Err(Exceeded::Total);
        }
        self.held = self.held.saturating_add(amount);
        self.by_holder.insert(holder, own.saturating_add(amount));
        Ok(())
    }

    /// Gives back what a holder took.
    pub(crate) fn give_back(&mut self, holder: &K, amount: u32) {
        self.held = self.held.saturating_sub(amount);
        if let Some(own) = self.by_holder.get_mut(holder) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                self.by_holder.remove(holder);
            }
        }
    }

    /// Total of all holders.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }
}

#[cfg(test)]
mod tests;
