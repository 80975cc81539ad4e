//! What `iptables-save` tells: our chains as hashes of their rules, and what leads to them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead};

use super::names::Table;

/// How all of our chains' names begin, and those of others that belong to Kubernetes.
pub const PREFIX: &str = "KUBE-";

/// The rules of a chain, as one number.
#[derive(Clone, Debug, Default)]
pub struct RulesHash(DefaultHasher);

impl RulesHash {
    /// Adds a rule behind those before.
    pub fn add(&mut self, rule: &str) {
        self.0.write(rule.as_bytes());
        self.0.write_u8(b'\n');
    }

    /// The number.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }

    /// The number for some rules.
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a String>) -> u64 {
        let mut hash = Self::default();
        for rule in rules {
            hash.add(rule);
        }
        hash.finish()
    }
}

/// A rule in another's chain that leads to one of Kubernetes' chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The other's chain.
    pub from: String,
    /// The rule.
    pub rule: String,
    /// The chain that it leads to.
    pub to: String,
}

/// The chains and references of one table.
#[derive(Debug, Default)]
pub struct SavedTable {
    /// Chains of Kubernetes by name.
    pub chains: HashMap<Box<str>, RulesHash>,
    /// What leads to them from chains of others.
    pub references: Vec<Reference>,
}

/// All that is there.
#[derive(Debug, Default)]
pub struct Saved([SavedTable; Table::ALL.len()]);

impl Saved {
    /// Reads what `iptables-save` prints. Lines that it does not know are skipped.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
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

    /// What a table has.
    pub fn table(&self, table: Table) -> &SavedTable {
        &self.0[table as usize]
    }

    /// Takes out a chain; the hash of its rules.
    pub fn take(&mut self, table: Table, name: &str) -> Option<u64> {
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

/// The chain or target that a rule leads to.
fn target(rule: &str) -> Option<&str> {
    let at = rule.rfind("-j ").or_else(|| rule.rfind("-g "))?;
    rule.get(at + 3..)?.split(' ').next()
}

#[cfg(test)]
mod tests;
