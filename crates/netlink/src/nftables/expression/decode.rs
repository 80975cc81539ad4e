//! Decoding of expressions from netlink attributes.

use super::encode::{
    ADDRESS_TYPE, DNAT, ICMPX_PORT_UNREACH, ICMPX_UNREACH, INCREMENTAL, INVERTED, META_TRACE, OF_INPUT_LINK,
    OUTPUT_LINK, SNAT, TCP_RST,
};
use super::*;

/// Attributes of one expression by number; eight are enough for all known expressions.
struct Fields<'a>([Option<Attribute<'a>>; 8]);

impl<'a> Fields<'a> {
    fn read(data: Option<Attribute<'a>>) -> Self {
        let mut fields = [None; 8];
        for attribute in data.into_iter().flat_map(|data| data.nested()) {
            if let Some(slot) = fields.get_mut(usize::from(attribute.kind)) {
                *slot = Some(attribute);
            }
        }
        Self(fields)
    }

    fn get(&self, kind: usize) -> Option<Attribute<'a>> {
        self.0.get(kind).copied().flatten()
    }

    fn number(&self, kind: usize) -> Option<u32> {
        self.get(kind)?.u32_be()
    }

    fn register(&self, kind: usize) -> Option<Register> {
        Register::from_number(self.number(kind)?)
    }

    fn bytes(&self, kind: usize) -> Option<Vec<u8>> {
        decode_value(self.get(kind)?).map(<[u8]>::to_vec)
    }

    fn text(&self, kind: usize) -> Option<String> {
        self.get(kind)?.text().map(str::to_owned)
    }
}

impl Expression {
    /// Decodes an element of a rule's expression list.
    pub(crate) fn decode(element: Attribute<'_>) -> Self {
        let (mut name, mut data) = ("", None);
        for attribute in element.nested() {
            match attribute.kind {
                wire::EXPRESSION_NAME => name = attribute.text().unwrap_or_default(),
                wire::EXPRESSION_DATA => data = Some(attribute),
                _ => {}
            }
        }
        decode_known(name, &Fields::read(data)).unwrap_or_else(|| Self::Other(name.to_owned()))
    }
}

/// Decodes an expression; `None` if the name, a value or a field is unknown.
fn decode_known(name: &str, fields: &Fields<'_>) -> Option<Expression> {
    Some(match name {
        "payload" => Expression::Payload {
            base: match fields.number(2)? {
                0 => PayloadBase::Link,
                1 => PayloadBase::Network,
                2 => PayloadBase::Transport,
                _ => return None,
            },
            offset: fields.number(3)?,
            bytes: fields.number(4)?,
            into: fields.register(1)?,
        },
        "meta" => decode_meta(fields)?,
        "ct" => decode_ct(fields)?,
        "fib" => decode_fib(fields)?,
        "cmp" => Expression::Compare {
            comparison: match fields.number(2)? {
                0 => Comparison::Equal,
                1 => Comparison::NotEqual,
                _ => return None,
            },
            register: fields.register(1)?,
            value: fields.bytes(3)?,
        },
        "bitwise" if fields.bytes(5)?.iter().all(|&byte| byte == 0) => Expression::Mask {
            from: fields.register(1)?,
            into: fields.register(2)?,
            mask: fields.bytes(4)?,
        },
        "lookup" => decode_lookup(fields)?,
        "immediate" if fields.number(1).is_some_and(|register| register != 0) => Expression::Load {
            value: fields.bytes(2)?,
            into: fields.register(1)?,
        },
        "immediate" => Expression::Verdict(Verdict::decode(fields.get(2)?)?.to_owned()),
        "numgen" if fields.number(3)? == INCREMENTAL => Expression::Increment {
            modulus: fields.number(2)?,
            into: fields.register(1)?,
        },
        "hash" => Expression::Hash {
            from: fields.register(1)?,
            into: fields.register(2)?,
            bytes: fields.number(3)?,
            modulus: fields.number(4)?,
            seed: fields.number(5)?,
        },
        "numgen" => Expression::Random {
            modulus: fields.number(2)?,
            into: fields.register(1)?,
        },
        _ => return decode_effect(name, fields),
    })
}

fn decode_meta(fields: &Fields<'_>) -> Option<Expression> {
    let number = fields.number(2)?;
    if fields.get(3).is_some() && number == MetaKey::Mark as u32 {
        let from = fields.register(3)?;
        return Some(Expression::SetMark { from });
    }
    if fields.get(3).is_some() && number == META_TRACE {
        let from = fields.register(3)?;
        return Some(Expression::SetTrace { from });
    }
    let key = match number {
        3 => MetaKey::Mark,
        6 => MetaKey::InputInterface,
        15 => MetaKey::Family,
        16 => MetaKey::Protocol,
        21 => MetaKey::InputGroup,
        _ => return None,
    };
    let into = fields.register(1)?;
    Some(Expression::Meta { key, into })
}

fn decode_ct(fields: &Fields<'_>) -> Option<Expression> {
    let direction = fields.get(3).and_then(|direction| direction.u8());
    let key = match (fields.number(2)?, direction) {
        (0, None) => CtKey::State,
        (1, None) => CtKey::Direction,
        (2, None) => CtKey::Status,
        (12, Some(0)) => CtKey::OriginalPort,
        (20, Some(0)) => CtKey::OriginalIpv4,
        (22, Some(0)) => CtKey::OriginalIpv6,
        _ => return None,
    };
    let into = fields.register(1)?;
    Some(Expression::Ct { key, into })
}

fn decode_fib(fields: &Fields<'_>) -> Option<Expression> {
    let (result, flags, into) = (fields.number(2)?, fields.number(3)?, fields.register(1)?);
    let address = |flags: u32| match flags {
        1 => Some(FibAddress::Source),
        2 => Some(FibAddress::Destination),
        _ => None,
    };
    Some(match result {
        ADDRESS_TYPE => Expression::FibType {
            address: address(flags)?,
            into,
        },
        OUTPUT_LINK => Expression::FibInput {
            address: address(flags.checked_sub(OF_INPUT_LINK)?)?,
            into,
        },
        _ => return None,
    })
}

fn decode_lookup(fields: &Fields<'_>) -> Option<Expression> {
    let inverted = fields.number(5).unwrap_or(0) & INVERTED != 0;
    let into = match fields.number(3) {
        None if inverted => Destination::NotFound,
        None => Destination::Found,
        Some(0) => Destination::Verdict,
        Some(number) => Destination::Register(Register::from_number(number)?),
    };
    Some(Expression::Lookup {
        set: fields.text(1)?,
        key: fields.register(2)?,
        into,
    })
}

fn decode_effect(name: &str, fields: &Fields<'_>) -> Option<Expression> {
    Some(match name {
        "nat" if fields.number(1)? == DNAT => Expression::Dnat {
            is_ipv6: fields.number(2)? == u32::from(wire::NFPROTO_IPV6),
            address: fields.register(3)?,
            port: fields.register(5),
        },
        "nat" if fields.number(1)? == SNAT && fields.get(5).is_none() => Expression::Snat {
            is_ipv6: fields.number(2)? == u32::from(wire::NFPROTO_IPV6),
            address: fields.register(3)?,
        },
        "masq" => Expression::Masquerade,
        "dup" => Expression::Dup {
            address: fields.register(1)?,
            link: fields.register(2)?,
        },
        "notrack" => Expression::Notrack,
        "reject" => match (fields.number(1)?, fields.get(2).and_then(|code| code.u8())) {
            (TCP_RST, _) => Expression::Reject(Rejection::TcpReset),
            (ICMPX_UNREACH, Some(ICMPX_PORT_UNREACH)) => Expression::Reject(Rejection::PortUnreachable),
            _ => return None,
        },
        "dynset" => Expression::Dynset {
            operation: match fields.number(3)? {
                0 => DynsetOperation::Add,
                1 => DynsetOperation::Update,
                2 => DynsetOperation::Delete,
                _ => return None,
            },
            set: fields.text(1)?,
            key: fields.register(4)?,
            data: fields.register(5)?,
            timeout_milliseconds: fields.get(6)?.u64_be()?,
        },
        _ => return None,
    })
}
