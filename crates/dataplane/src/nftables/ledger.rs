//! Which transactions are accounted for: as long as each one is either ours, or told by the watch and mended, nothing
//! has to be read back.

use netlink::nftables::Generation;

/// The transactions since the table was last known to be as it should be.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The ruleset's state then. `None` if that is not known.
    since: Option<Generation>,
    /// Transactions of ours since.
    own: u32,
    /// Those of others since whose traces are mended.
    others: u32,
}

impl Ledger {
    /// The table is as it should be in this state, or will be by what is done next.
    pub fn start(&mut self, state: Generation) {
        *self = Self {
            since: Some(state),
            ..Self::default()
        };
    }

    /// Nothing is known of the table any more.
    pub fn lose(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a transaction of ours.
    pub fn note_own(&mut self) {
        self.own = self.own.saturating_add(1);
    }

    /// Takes note of another's transaction, by the state that it has made, when what it touched is mended.
    pub fn note_other(&mut self, state: Generation) {
        let is_later = |since: Generation| state.transactions_since(since).is_some_and(|count| count > 0);
        if self.since.is_some_and(is_later) {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Whether all transactions are accounted for that have led to a state.
    pub fn accounts_for(&self, state: Generation) -> bool {
        let transactions = self.since.and_then(|since| state.transactions_since(since));
        transactions == self.own.checked_add(self.others)
    }
}

#[cfg(test)]
mod tests;
