//! Inventory of the ruleset: tables, chains and numbers of rules in all families, with those of other programs.

use std::collections::HashMap;

use crate::message::Message;

use super::connection::Nftables;
use super::error::ReadError;
use super::wire;

/// Tables, chains and numbers of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Tables of all families.
    pub tables: Vec<InventoryTable>,
    /// True if the ruleset has more chains than the inventory.
    pub is_truncated: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryTable {
    /// Family: ip, ip6, inet, arp, bridge or netdev; the number of an unknown one.
    pub family: String,
    /// Name.
    pub name: String,
    /// True if the chains of the table are not registered with hooks.
    pub is_dormant: bool,
    /// Chains.
    pub chains: Vec<InventoryChain>,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryChain {
    /// Name.
    pub name: String,
    /// Type: filter, nat or route; only for base chains, as the following fields.
    pub kind: Option<String>,
    /// Hook by its name in `nft`.
    pub hook: Option<&'static str>,
    /// Priority at the hook.
    pub priority: Option<i32>,
    /// True if packets that reach the end of the chain are accepted.
    pub accepts: Option<bool>,
    /// Number of rules.
    pub rules: u64,
}

/// Family and name of a table.
type TableKey = (u8, String);

impl Nftables {
    /// Returns the tables of all families, with at most `chains_max` chains. Rules are counted, not decoded.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if a dump fails.
    pub fn inventory(&mut self, chains_max: usize) -> Result<Inventory, ReadError> {
        let all = wire::NFPROTO_UNSPEC;
        let tables = self.dump_messages(
            "list tables",
            all,
            wire::GETTABLE,
            |_| {},
            |message, found: &mut Vec<(TableKey, InventoryTable)>| found.extend(decode_table(message)),
        )?;
        let chains = self.dump_messages(
            "list chains",
            all,
            wire::GETCHAIN,
            |_| {},
            |message, found: &mut Vec<(TableKey, InventoryChain)>| {
                // One chain more shows that there are more.
                if found.len() <= chains_max {
                    found.extend(decode_chain(message));
                }
            },
        )?;
        let rules = self.dump_messages(
            "list rules",
            all,
            wire::GETRULE,
            |_| {},
            |message, found: &mut HashMap<TableKey, HashMap<String, u64>>| {
                if let Some((table, chain)) = decode_rule(message) {
                    *found.entry(table).or_default().entry(chain).or_default() += 1;
                }
            },
        )?;
        Ok(assemble(tables, chains, &rules, chains_max))
    }
}

fn assemble(
    tables: Vec<(TableKey, InventoryTable)>,
    mut chains: Vec<(TableKey, InventoryChain)>,
    rules: &HashMap<TableKey, HashMap<String, u64>>,
    chains_max: usize,
) -> Inventory {
    let is_truncated = chains.len() > chains_max;
    chains.truncate(chains_max);
    let mut chains_of: HashMap<TableKey, Vec<InventoryChain>> = HashMap::new();
    for (table, mut chain) in chains {
        let counts = rules.get(&table);
        chain.rules = counts
            .and_then(|counts| counts.get(&chain.name))
            .copied()
            .unwrap_or(0);
        chains_of.entry(table).or_default().push(chain);
    }
    let with_chains = |(key, table): (TableKey, InventoryTable)| InventoryTable {
        chains: chains_of.remove(&key).unwrap_or_default(),
        ..table
    };
    Inventory {
        tables: tables.into_iter().map(with_chains).collect(),
        is_truncated,
    }
}

/// Returns the family of an object (`nfgen_family`).
fn family(message: &Message<'_>) -> Option<u8> {
    message.payload.first().copied()
}

fn decode_table(message: &Message<'_>) -> Option<(TableKey, InventoryTable)> {
    let number = family(message)?;
    let (mut name, mut flags) = (None, 0);
    for attribute in message.attributes(wire::GENERIC_BYTES) {
        match attribute.kind {
            wire::TABLE_NAME => name = attribute.text(),
            wire::TABLE_FLAGS => flags = attribute.u32_be()?,
            _ => {}
        }
    }
    let name = name?.to_owned();
    let table = InventoryTable {
        family: family_name(number),
        name: name.clone(),
        is_dormant: flags & wire::TABLE_DORMANT != 0,
        chains: Vec::new(),
    };
    Some(((number, name), table))
}

fn decode_chain(message: &Message<'_>) -> Option<(TableKey, InventoryChain)> {
    let number = family(message)?;
    let (mut table, mut chain) = (None, InventoryChain::default());
    for attribute in message.attributes(wire::GENERIC_BYTES) {
        match attribute.kind {
            wire::CHAIN_TABLE => table = attribute.text(),
            wire::CHAIN_NAME => attribute.text()?.clone_into(&mut chain.name),
            wire::CHAIN_TYPE => chain.kind = attribute.text().map(str::to_owned),
            // NF_DROP is 0, NF_ACCEPT is 1.
            wire::CHAIN_POLICY => chain.accepts = attribute.u32_be().map(|policy| policy != 0),
            wire::CHAIN_HOOK => {
                for inner in attribute.nested() {
                    match inner.kind {
                        wire::HOOK_NUMBER => {
                            chain.hook = inner.u32_be().and_then(|hook| hook_name(number, hook));
                        }
                        wire::HOOK_PRIORITY => {
                            chain.priority = inner.u32_be().map(|priority| priority as i32);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(((number, table?.to_owned()), chain))
}

/// Returns the table and the chain of a rule.
fn decode_rule(message: &Message<'_>) -> Option<(TableKey, String)> {
    let (mut table, mut chain) = (None, None);
    for attribute in message.attributes(wire::GENERIC_BYTES) {
        match attribute.kind {
            wire::RULE_TABLE => table = attribute.text(),
            wire::RULE_CHAIN => chain = attribute.text(),
            _ => {}
        }
    }
    Some(((family(message)?, table?.to_owned()), chain?.to_owned()))
}

fn family_name(number: u8) -> String {
    match i32::from(number) {
        libc::NFPROTO_INET => "inet",
        libc::NFPROTO_IPV4 => "ip",
        libc::NFPROTO_ARP => "arp",
        libc::NFPROTO_NETDEV => "netdev",
        libc::NFPROTO_BRIDGE => "bridge",
        libc::NFPROTO_IPV6 => "ip6",
        other => return other.to_string(),
    }
    .to_owned()
}

/// Returns the name of a hook, whose number depends on the family.
fn hook_name(family: u8, hook: u32) -> Option<&'static str> {
    let names: &[&'static str] = match i32::from(family) {
        libc::NFPROTO_NETDEV => &["ingress", "egress"],
        libc::NFPROTO_ARP => &["input", "output", "forward"],
        libc::NFPROTO_BRIDGE => &["prerouting", "input", "forward", "output", "postrouting"],
        _ => &[
            "prerouting",
            "input",
            "forward",
            "output",
            "postrouting",
            "ingress",
        ],
    };
    names.get(usize::try_from(hook).ok()?).copied()
}

/// Decoders for the fuzz target.
#[cfg(fuzzing)]
pub(super) fn decode_for_fuzzing(message: &Message<'_>) {
    decode_table(message);
    decode_chain(message);
    decode_rule(message);
}

#[cfg(test)]
mod tests;
