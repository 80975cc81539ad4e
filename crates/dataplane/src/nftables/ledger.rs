//! Ledger of transactions since the last verified state. While each transaction is one of this process, or was reported
//! and repaired, the process reads no rules back.

use netlink::nftables::Generation;

/// Transactions since the table was last verified.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Generation of the ruleset at that time; `None` if no state is verified.
    since: Option<Generation>,
    /// Number of this process's transactions since then.
    own: u32,
    /// Number of external transactions since then whose changes are repaired.
    external: u32,
}

impl Ledger {
    /// Starts a new count: the table is correct in this generation, or will be after the next transaction.
    pub(super) fn start(&mut self, state: Generation) {
        *self = Self {
            since: Some(state),
            ..Self::default()
        };
    }

    /// Discards the count, because the state of the table is unknown.
    pub(super) fn invalidate(&mut self) {
        *self = Self::default();
    }

    /// Counts a transaction of this process.
    pub(super) fn record_own(&mut self) {
        self.own = self.own.saturating_add(1);
    }

    /// Counts an external transaction after its repair. `state` is the generation that it created.
    pub(super) fn record_external(&mut self, state: Generation) {
        let is_later = |since: Generation| state.transactions_since(since).is_some_and(|count| count > 0);
        if self.since.is_some_and(is_later) {
            self.external = self.external.saturating_add(1);
        }
    }

    /// Returns true if the ledger explains every transaction up to this generation.
    pub(super) fn accounts_for(&self, state: Generation) -> bool {
        let transactions = self.since.and_then(|since| state.transactions_since(since));
        transactions == self.own.checked_add(self.external)
    }
}

#[cfg(test)]
mod tests;
