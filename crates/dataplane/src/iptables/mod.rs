//! The plan in iptables, legacy or nft, through `iptables-restore`, in the chains and under the names that
//! kube-proxy has (IPT), for kernels and tools that need that.
//!
//! What differs from kube-proxy:
//! - a change rewrites the chains that it changes and no others; the long shared chains stay as they are while
//!   only endpoints change;
//! - TCP is refused with a reset; ports that a cluster IP does not have are refused, and cluster IPs that no
//!   Service has are dropped (chain `KUBE-CLUSTER-IPS`), as in the other modes;
//! - what is there is read back and compared rule by rule, not only asked for a canary.
//!
//! A change is one transaction a table, not one in all: `filter` comes first, so that nothing is refused after it
//! has endpoints. A Service whose rules are refused is left out until it changes, or everything is written anew.

mod context;
mod edit;
mod fixed;
mod leftovers;
mod names;
mod port;
mod program;
mod rule;
mod saved;
mod side;

use plan::{Changes, Family, Plan};

use crate::{Applied, Counts, Dataplane, DataplaneError};

pub use leftovers::Leftovers;
pub use program::{ProgramError, Variant};

use program::Programs;
use side::Side;

/// The kernel's counter of packets that were dropped since connection tracking knows nothing of them, of both families
/// together, by upstream's name (IPT-08). There is none where the kernel has no counters by name.
pub const INVALID_DROPPED_COUNTER: &str = "ct_state_invalid_dropped_pkts";

/// Bits of a packet's mark.
const MARK_BITS: u8 = 32;

/// How the dataplane is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which bit of the packet mark says that a packet is to be masqueraded, 0 to 31 (KPF-17).
    pub masquerade_bit: u8,
    /// Which kind of tables; `None` for the one that this machine uses.
    pub variant: Option<Variant>,
    /// How many repairs only look for the canaries and the main ways in, between two that compare everything.
    /// Comparing costs what is there.
    pub repairs_by_canary: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            masquerade_bit: 14,
            variant: None,
            repairs_by_canary: 9,
        }
    }
}

impl Options {
    fn masquerade_mark(&self) -> u32 {
        1 << (self.masquerade_bit % MARK_BITS)
    }
}

/// A plan in force in the iptables of the network namespace of the calling thread.
#[derive(Debug)]
pub struct IptablesDataplane {
    options: Options,
    /// The families that this machine has.
    sides: Vec<Side>,
    repairs: usize,
}

impl IptablesDataplane {
    /// Finds the programs and asks whether the kernel lets them in; no rule is written yet. IPv6 is left out where
    /// the kernel or the programs do not have it.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let variant = options.variant.or_else(program::detect);
        tracing::debug!(?variant, "kind of tables");
        let v4 = Programs::new(Family::V4, variant);
        v4.check()?;
        let mut sides = vec![Side::new(Family::V4, v4)];
        let v6 = Programs::new(Family::V6, variant);
        match v6.check() {
            Ok(()) => sides.push(Side::new(Family::V6, v6)),
            Err(error) => tracing::warn!(%error, "no IPv6 Services"),
        }
        Ok(Self {
            options,
            sides,
            repairs: 0,
        })
    }

    /// Takes chains and what leads to them out of the tables of both kinds. Whether there were any.
    pub fn cleanup(leftovers: Leftovers) -> Result<bool, DataplaneError> {
        leftovers::clean(leftovers)
    }
}

impl Dataplane for IptablesDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut total = Applied::default();
        for side in &mut self.sides {
            let applied = side.apply(plan, changes, &self.options)?;
            total.elements += applied.elements;
            for skipped in applied.skipped {
                if total.skipped.iter().all(|known| known.service != skipped.service) {
                    total.skipped.push(skipped);
                }
            }
        }
        Ok(total)
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let is_complete = self.repairs.is_multiple_of(self.options.repairs_by_canary + 1);
        self.repairs += 1;
        let mut drift = 0;
        for side in &mut self.sides {
            if is_complete || !side.is_undisturbed()? {
                drift += side.repair(plan, &self.options)?;
            }
        }
        Ok(drift)
    }

    fn counts(&self) -> Counts {
        Counts {
            iptables: self.sides.iter().map(Side::counts).collect(),
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests;
