//! Encoding of expressions as netlink attributes.

use super::*;

/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`.
const RANDOM_FULLY: u32 = 1 << 4;
/// `NFT_META_NFTRACE`.
pub(super) const META_TRACE: u32 = 12;
/// `NFT_LOOKUP_F_INV`.
pub(super) const INVERTED: u32 = 1;
/// `NFT_FIB_RESULT_ADDRTYPE`.
pub(super) const ADDRESS_TYPE: u32 = 3;
/// `NFT_FIB_RESULT_OIF`.
pub(super) const OUTPUT_LINK: u32 = 1;
/// `NFTA_FIB_F_IIF`.
pub(super) const OF_INPUT_LINK: u32 = 1 << 3;
/// `NFT_NG_RANDOM`.
const RANDOM: u32 = 1;
/// `NFT_NG_INCREMENTAL`.
pub(super) const INCREMENTAL: u32 = 0;
/// `NFT_HASH_JENKINS`.
const JENKINS: u32 = 0;
/// `NFT_NAT_SNAT`.
pub(super) const SNAT: u32 = 0;
/// `NFT_NAT_DNAT`.
pub(super) const DNAT: u32 = 1;
/// `NFT_REJECT_TCP_RST`.
pub(super) const TCP_RST: u32 = 1;
/// `NFT_REJECT_ICMPX_UNREACH` and `NFT_REJECT_ICMPX_PORT_UNREACH`.
pub(super) const ICMPX_UNREACH: u32 = 2;
pub(super) const ICMPX_PORT_UNREACH: u8 = 1;

impl Expression {
    /// Returns the kernel's name of the expression.
    pub fn name(&self) -> &str {
        match self {
            Self::Payload { .. } => "payload",
            Self::Meta { .. } | Self::SetMark { .. } | Self::SetTrace { .. } => "meta",
            Self::Ct { .. } => "ct",
            Self::FibType { .. } | Self::FibInput { .. } => "fib",
            Self::Compare { .. } => "cmp",
            Self::Mask { .. } => "bitwise",
            Self::Lookup { .. } => "lookup",
            Self::Verdict(_) | Self::Load { .. } => "immediate",
            Self::Random { .. } | Self::Increment { .. } => "numgen",
            Self::Hash { .. } => "hash",
            Self::Dnat { .. } | Self::Snat { .. } => "nat",
            Self::Masquerade => "masq",
            Self::Dup { .. } => "dup",
            Self::Notrack => "notrack",
            Self::Reject(_) => "reject",
            Self::Dynset { .. } => "dynset",
            Self::Other(name) => name,
        }
    }

    /// Appends the expression to a list.
    pub(crate) fn encode(&self, writer: &mut Writer) {
        let element = writer.nest(wire::LIST_ELEMENT);
        writer.text(wire::EXPRESSION_NAME, self.name());
        let data = writer.nest(wire::EXPRESSION_DATA);
        self.encode_data(writer);
        writer.end(data);
        writer.end(element);
    }

    /// Writes the attributes of the expression.
    fn encode_data(&self, writer: &mut Writer) {
        match self {
            Self::Payload {
                base,
                offset,
                bytes,
                into,
            } => {
                writer
                    .u32_be(1, into.number())
                    .u32_be(2, *base as u32)
                    .u32_be(3, *offset)
                    .u32_be(4, *bytes);
            }
            Self::Meta { key, into } => {
                writer.u32_be(1, into.number()).u32_be(2, *key as u32);
            }
            Self::SetMark { from } => {
                writer.u32_be(2, MetaKey::Mark as u32).u32_be(3, from.number());
            }
            Self::SetTrace { from } => {
                writer.u32_be(2, META_TRACE).u32_be(3, from.number());
            }
            Self::Ct { key, into } => {
                writer.u32_be(1, into.number()).u32_be(2, *key as u32);
                if !matches!(key, CtKey::State | CtKey::Direction | CtKey::Status) {
                    writer.attribute(3, &[0]); // IP_CT_DIR_ORIGINAL
                }
            }
            Self::FibType { address, into } => encode_fib(writer, *into, ADDRESS_TYPE, *address as u32),
            Self::FibInput { address, into } => {
                encode_fib(writer, *into, OUTPUT_LINK, *address as u32 | OF_INPUT_LINK);
            }
            Self::Compare {
                register,
                comparison,
                value,
            } => {
                writer.u32_be(1, register.number()).u32_be(2, *comparison as u32);
                encode_value(writer, 3, value);
            }
            Self::Mask { from, into, mask } => {
                writer
                    .u32_be(1, from.number())
                    .u32_be(2, into.number())
                    .u32_be(3, mask.len() as u32);
                encode_value(writer, 4, mask);
                encode_value(writer, 5, &vec![0; mask.len()]);
            }
            Self::Lookup { set, key, into } => encode_lookup(writer, set, *key, *into),
            Self::Verdict(verdict) => {
                writer.u32_be(1, 0);
                verdict.encode(writer, 2);
            }
            Self::Load { value, into } => {
                writer.u32_be(1, into.number());
                encode_value(writer, 2, value);
            }
            Self::Random { .. } | Self::Increment { .. } | Self::Hash { .. } => self.encode_number(writer),
            Self::Dnat { .. }
            | Self::Snat { .. }
            | Self::Masquerade
            | Self::Dup { .. }
            | Self::Reject(_)
            | Self::Dynset { .. } => {
                self.encode_effect(writer);
            }
            Self::Notrack | Self::Other(_) => {}
        }
    }

    /// Encodes expressions that compute numbers.
    fn encode_number(&self, writer: &mut Writer) {
        match self {
            Self::Random { modulus, into } => {
                writer
                    .u32_be(1, into.number())
                    .u32_be(2, *modulus)
                    .u32_be(3, RANDOM)
                    .u32_be(4, 0);
            }
            Self::Increment { modulus, into } => {
                writer
                    .u32_be(1, into.number())
                    .u32_be(2, *modulus)
                    .u32_be(3, INCREMENTAL)
                    .u32_be(4, 0);
            }
            Self::Hash {
                from,
                bytes,
                modulus,
                seed,
                into,
            } => {
                writer
                    .u32_be(1, from.number())
                    .u32_be(2, into.number())
                    .u32_be(3, *bytes)
                    .u32_be(4, *modulus)
                    .u32_be(5, *seed)
                    .u32_be(6, 0)
                    .u32_be(7, JENKINS);
            }
            _ => {}
        }
    }

    /// Encodes expressions with side effects.
    fn encode_effect(&self, writer: &mut Writer) {
        match self {
            Self::Dnat {
                is_ipv6,
                address,
                port,
            } => {
                encode_nat(writer, DNAT, *is_ipv6, *address);
                if let Some(port) = port {
                    writer.u32_be(5, port.number());
                }
            }
            Self::Snat { is_ipv6, address } => encode_nat(writer, SNAT, *is_ipv6, *address),
            Self::Masquerade => {
                writer.u32_be(1, RANDOM_FULLY);
            }
            Self::Dup { address, link } => {
                writer.u32_be(1, address.number()).u32_be(2, link.number());
            }
            Self::Reject(Rejection::TcpReset) => {
                writer.u32_be(1, TCP_RST).attribute(2, &[0]);
            }
            Self::Reject(Rejection::PortUnreachable) => {
                writer
                    .u32_be(1, ICMPX_UNREACH)
                    .attribute(2, &[ICMPX_PORT_UNREACH]);
            }
            Self::Dynset {
                set,
                operation,
                key,
                data,
                timeout_milliseconds,
            } => {
                writer
                    .text(1, set)
                    .u32_be(3, *operation as u32)
                    .u32_be(4, key.number())
                    .u32_be(5, data.number())
                    .attribute(6, &timeout_milliseconds.to_be_bytes());
            }
            _ => {}
        }
    }
}

fn encode_nat(writer: &mut Writer, kind: u32, is_ipv6: bool, address: Register) {
    let family = if is_ipv6 {
        wire::NFPROTO_IPV6
    } else {
        wire::NFPROTO_IPV4
    };
    writer
        .u32_be(1, kind)
        .u32_be(2, u32::from(family))
        .u32_be(3, address.number());
}

fn encode_fib(writer: &mut Writer, into: Register, result: u32, flags: u32) {
    writer.u32_be(1, into.number()).u32_be(2, result).u32_be(3, flags);
}

fn encode_lookup(writer: &mut Writer, set: &str, key: Register, into: Destination) {
    writer.text(1, set).u32_be(2, key.number());
    match into {
        Destination::Found => {}
        Destination::NotFound => {
            writer.u32_be(5, INVERTED);
        }
        Destination::Verdict => {
            writer.u32_be(3, 0);
        }
        Destination::Register(register) => {
            writer.u32_be(3, register.number());
        }
    }
}
