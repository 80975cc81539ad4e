//! Tables, chains and rules.

use crate::message::{Attributes, Writer};

use super::comment;
use super::expression::Expression;
use super::wire;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name, unique in its family.
    pub name: String,
    /// Comment, which `nft` shows; "" for no comment.
    pub comment: String,
    /// True if the chains of the table are not registered with hooks.
    pub is_dormant: bool,
}

impl Table {
    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.text(wire::TABLE_NAME, &self.name);
        // Without the attribute, the kernel keeps the flags of a table that exists.
        let flags = if self.is_dormant { wire::TABLE_DORMANT } else { 0 };
        writer.u32_be(wire::TABLE_FLAGS, flags);
        encode_comment(writer, wire::TABLE_USERDATA, &self.comment);
    }

    pub(super) fn decode(attributes: Attributes<'_>) -> Option<Self> {
        let (mut name, mut comment, mut flags) = (None, "", 0);
        for attribute in attributes {
            match attribute.kind {
                wire::TABLE_NAME => name = attribute.text(),
                wire::TABLE_FLAGS => flags = attribute.u32_be()?,
                wire::TABLE_USERDATA => {
                    comment = comment::read(attribute.value, comment::Owner::Most).unwrap_or_default();
                }
                _ => {}
            }
        }
        Some(Self {
            name: name?.to_owned(),
            comment: comment.to_owned(),
            is_dormant: flags & wire::TABLE_DORMANT != 0,
        })
    }
}

/// Hook of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    /// Incoming packets before routing.
    Prerouting = 0,
    /// Packets to this node.
    Input = 1,
    /// Packets to other hosts.
    Forward = 2,
    /// Packets from this node.
    Output = 3,
    /// Outgoing packets after routing.
    Postrouting = 4,
}

/// Type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// Filter: sees every packet.
    Filter,
    /// NAT: sees the first packet of each connection and may translate addresses.
    Nat,
}

/// Registration of a chain with a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// Chain type: filter or NAT.
    pub kind: ChainKind,
    /// Netfilter hook.
    pub hook: Hook,
    /// Priority; lower values run first (`dstnat` is -100, `srcnat` 100).
    pub priority: i32,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Name, unique in its table.
    pub name: String,
    /// Registration with a hook, for base chains. The policy is accept.
    pub base: Option<BaseChain>,
    /// Comment, which `nft` shows; "" for no comment.
    pub comment: String,
}

impl Chain {
    pub(super) fn encode(&self, writer: &mut Writer, table: &str) {
        writer
            .text(wire::CHAIN_TABLE, table)
            .text(wire::CHAIN_NAME, &self.name);
        if let Some(base) = self.base {
            let hook = writer.nest(wire::CHAIN_HOOK);
            writer
                .u32_be(wire::HOOK_NUMBER, base.hook as u32)
                .u32_be(wire::HOOK_PRIORITY, base.priority as u32)
                .end(hook)
                .u32_be(wire::CHAIN_POLICY, 1) // NF_ACCEPT
                .text(
                    wire::CHAIN_TYPE,
                    match base.kind {
                        ChainKind::Filter => "filter",
                        ChainKind::Nat => "nat",
                    },
                );
        }
        encode_comment(writer, wire::CHAIN_USERDATA, &self.comment);
    }

    /// Decodes a chain: the table and the chain.
    pub(super) fn decode(attributes: Attributes<'_>) -> Option<(String, Self)> {
        let (mut table, mut name, mut comment) = (None, None, "");
        let (mut kind, mut hook, mut priority) = (None, None, None);
        for attribute in attributes {
            match attribute.kind {
                wire::CHAIN_TABLE => table = attribute.text(),
                wire::CHAIN_NAME => name = attribute.text(),
                wire::CHAIN_TYPE => {
                    kind = match attribute.text() {
                        Some("filter") => Some(ChainKind::Filter),
                        Some("nat") => Some(ChainKind::Nat),
                        _ => None,
                    };
                }
                wire::CHAIN_HOOK => {
                    for inner in attribute.nested() {
                        match inner.kind {
                            wire::HOOK_NUMBER => hook = inner.u32_be().and_then(hook_of),
                            wire::HOOK_PRIORITY => priority = inner.u32_be(),
                            _ => {}
                        }
                    }
                }
                wire::CHAIN_USERDATA => {
                    comment = comment::read(attribute.value, comment::Owner::Most).unwrap_or_default();
                }
                _ => {}
            }
        }
        let base = match (kind, hook, priority) {
            (Some(kind), Some(hook), Some(priority)) => Some(BaseChain {
                kind,
                hook,
                priority: priority as i32,
            }),
            _ => None,
        };
        let chain = Self {
            name: name?.to_owned(),
            base,
            comment: comment.to_owned(),
        };
        Some((table?.to_owned(), chain))
    }
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rule {
    /// Expressions in order.
    pub expressions: Vec<Expression>,
    /// Comment, which `nft` shows; "" for no comment.
    pub comment: String,
}

impl Rule {
    pub(super) fn encode(&self, writer: &mut Writer, table: &str, chain: &str) {
        writer.text(wire::RULE_TABLE, table).text(wire::RULE_CHAIN, chain);
        let expressions = writer.nest(wire::RULE_EXPRESSIONS);
        for expression in &self.expressions {
            expression.encode(writer);
        }
        writer.end(expressions);
        encode_comment(writer, wire::RULE_USERDATA, &self.comment);
    }

    /// Decodes a rule: the table, the chain and the rule.
    pub(super) fn decode(attributes: Attributes<'_>) -> Option<(String, String, Self)> {
        let (mut table, mut chain, mut rule) = (None, None, Self::default());
        for attribute in attributes {
            match attribute.kind {
                wire::RULE_TABLE => table = attribute.text(),
                wire::RULE_CHAIN => chain = attribute.text(),
                wire::RULE_EXPRESSIONS => {
                    rule.expressions = attribute.nested().map(Expression::decode).collect();
                }
                wire::RULE_USERDATA => {
                    let comment = comment::read(attribute.value, comment::Owner::Most);
                    rule.comment = comment.unwrap_or_default().to_owned();
                }
                _ => {}
            }
        }
        Some((table?.to_owned(), chain?.to_owned(), rule))
    }
}

fn encode_comment(writer: &mut Writer, kind: u16, text: &str) {
    let mut user_data = Vec::new();
    comment::append(&mut user_data, comment::Owner::Most, text);
    if !user_data.is_empty() {
        writer.attribute(kind, &user_data);
    }
}

fn hook_of(number: u32) -> Option<Hook> {
    Some(match number {
        0 => Hook::Prerouting,
        1 => Hook::Input,
        2 => Hook::Forward,
        3 => Hook::Output,
        4 => Hook::Postrouting,
        _ => return None,
    })
}
