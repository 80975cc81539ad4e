//! Shares of a limit. The units of the limit are, for example, permits or bytes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// A limit of the units of all holders together. The units of one holder are at most the free units, divided by
/// `free_divisor`. With the divisor 1, a single holder gets half of the units, and two holders get a third each. With the
/// divisor 3, a single holder gets a quarter, and two holders get a fifth each.
#[derive(Debug)]
pub struct Shares<H> {
    total_max: usize,
    free_divisor: usize,
    held: Mutex<HeldUnits<H>>,
}

/// Units in use: in total, and by holder. Holders without units are absent.
#[derive(Debug)]
struct HeldUnits<H> {
    total: usize,
    holders: HashMap<H, usize>,
}

/// Units of a holder, until this is dropped.
#[derive(Debug)]
pub struct Share<H: Eq + Hash> {
    shares: Arc<Shares<H>>,
    holder: H,
    units: usize,
}

/// Permits of all namespaces. The holder "" is the node itself.
pub type NamespaceShares = Shares<String>;
/// Permit of a namespace, until this is dropped.
pub type NamespaceShare = Share<String>;

impl<H: Clone + Eq + Hash> Shares<H> {
    /// Creates the shares of a limit. A holder may have as many units as are free.
    pub fn of(total_max: usize) -> Arc<Self> {
        Self::with_divisor(total_max, 1)
    }

    /// Creates the shares of a limit. A holder may have as many units as are free, divided by `free_divisor`.
    pub fn with_divisor(total_max: usize, free_divisor: usize) -> Arc<Self> {
        Arc::new(Self {
            total_max,
            free_divisor: free_divisor.max(1),
            held: Mutex::new(HeldUnits {
                total: 0,
                holders: HashMap::new(),
            }),
        })
    }

    /// Returns one unit, unless the limit or the share of the holder is reached.
    pub fn take<Q>(self: &Arc<Self>, holder: &Q) -> Option<Share<H>>
    where
        H: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = H>,
    {
        self.take_units(holder, 1)
    }

    /// Returns units, unless that exceeds the limit or the share of the holder.
    pub fn take_units<Q>(self: &Arc<Self>, holder: &Q, units: usize) -> Option<Share<H>>
    where
        H: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = H>,
    {
        self.take_if(holder, units, |held, free| {
            held <= free.div_ceil(self.free_divisor)
        })
    }

    /// Returns units of a holder without a share, unless that exceeds the limit.
    pub fn take_beyond_share<Q>(self: &Arc<Self>, holder: &Q, units: usize) -> Option<Share<H>>
    where
        H: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = H>,
    {
        self.take_if(holder, units, |_, _| true)
    }

    /// Returns units if `is_permitted` is true for the number that the holder then has, and the number that is free now.
    fn take_if<Q>(
        self: &Arc<Self>,
        holder: &Q,
        units: usize,
        is_permitted: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Share<H>>
    where
        H: Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = H>,
    {
        let mut held = self.held();
        let of_holder = held.holders.get(holder).copied().unwrap_or_default();
        let of_holder = of_holder.saturating_add(units);
        let free = self.total_max.saturating_sub(held.total);
        if units > free || !is_permitted(of_holder, free) {
            return None;
        }
        held.total += units;
        let holder = holder.to_owned();
        held.holders.insert(holder.clone(), of_holder);
        Some(Share {
            shares: Arc::clone(self),
            holder,
            units,
        })
    }
}

impl<H> Shares<H> {
    fn held(&self) -> MutexGuard<'_, HeldUnits<H>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Drop for Share<H> {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        held.total = held.total.saturating_sub(self.units);
        if let Some(of_holder) = held.holders.get_mut(&self.holder) {
            *of_holder = of_holder.saturating_sub(self.units);
            if *of_holder == 0 {
                held.holders.remove(&self.holder);
            }
        }
    }
}
