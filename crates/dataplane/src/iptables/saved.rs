//! Output of `iptables-save`: chains of Kubernetes as hashes of their rules, and the jumps to them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead};

use super::names::Table;

/// Name prefix of all chains of Kubernetes.
pub(super) const PREFIX: &str = "KUBE-";

/// Hash of the rules of a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct RulesHash(DefaultHasher);

impl RulesHash {
    /// Adds the next rule.
    pub(super) fn add(&mut self, rule: &str) {
        self.0.write(rule.as_bytes());
        self.0.write_u8(b'\n');
    }

    /// Returns the hash.
    pub(super) fn finish(&self) -> u64 {
        self.0.finish()
    }

    /// Returns the hash of a list of rules.
    pub(super) fn of<'a>(rules: impl IntoIterator<Item = &'a String>) -> u64 {
        let mut hash = Self::default();
        for rule in rules {
            hash.add(rule);
        }
        hash.finish()
    }
}

/// A rule in a foreign chain that jumps to a chain of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Foreign chain.
    pub from: String,
    /// Text of the rule.
    pub rule: String,
    /// Chain of Kubernetes.
    pub to: String,
}

/// Chains of Kubernetes in one table, and the jumps to them.
#[derive(Debug, Default)]
pub(super) struct SavedTable {
    /// Hashes of the chains by name.
    pub chains: HashMap<Box<str>, RulesHash>,
    /// Jumps from foreign chains.
    pub references: Vec<Reference>,
}

/// Content of all tables.
#[derive(Debug, Default)]
pub(super) struct SavedTables([SavedTable; Table::ALL.len()]);

impl SavedTables {
    /// Parses the output of `iptables-save`. Unknown lines are skipped.
    pub(super) fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut saved = Self::default();
        let mut table: Option<Table> = None;
        let mut line = String::new();
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Ok(saved);
            }
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix('*') {
                table = Table::ALL.into_iter().find(|table| table.name() == name);
            } else if let Some(table) = table {
                saved.0[table as usize].take(line);
            }
        }
    }

    /// Returns the content of a table.
    pub(super) fn table(&self, table: Table) -> &SavedTable {
        &self.0[table as usize]
    }

    /// Removes a chain and returns the hash of its rules.
    pub(super) fn take(&mut self, table: Table, name: &str) -> Option<u64> {
        self.0[table as usize]
            .chains
            .remove(name)
            .map(|hash| hash.finish())
    }
}

impl SavedTable {
    fn take(&mut self, line: &str) {
        if let Some(chain) = line.strip_prefix(':') {
            let name = chain.split(' ').next().unwrap_or_default();
            if name.starts_with(PREFIX) {
                self.chains.entry(name.into()).or_default();
            }
        } else if let Some((chain, rule)) = line.strip_prefix("-A ").and_then(|rest| rest.split_once(' ')) {
            if let Some(hash) = self.chains.get_mut(chain) {
                hash.add(rule);
            } else if let Some(to) = target(rule).filter(|to| to.starts_with(PREFIX)) {
                self.references.push(Reference {
                    from: chain.to_owned(),
                    rule: rule.to_owned(),
                    to: to.to_owned(),
                });
            }
        }
    }
}

/// Returns the chain or target of a rule.
fn target(rule: &str) -> Option<&str> {
    let at = rule.rfind("-j ").or_else(|| rule.rfind("-g "))?;
    rule.get(at + 3..)?.split(' ').next()
}

#[cfg(test)]
mod tests;
