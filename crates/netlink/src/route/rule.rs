//! Policy rules: they select the routing table of a packet (`fib_rules.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::connection::Connection;
use super::error::RouteError;
use super::message::{Request, read_address, read_u32};
use super::table::RouteTable;
use crate::message::{Attribute, attributes};

/// Size of `struct fib_rule_hdr` in bytes.
const FIXED_BYTES: usize = 12;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_PROTOCOL: u16 = 21;
/// Action of a rule that looks up a table.
const FR_ACT_TO_TBL: u8 = 1;

/// IP family of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl RuleFamily {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }

    fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// Bits of a packet's mark that a rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleMark {
    /// Expected value of the bits.
    pub value: u32,
    /// Bits that count.
    pub mask: u32,
}

/// A rule that looks up a routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// IP family.
    pub family: RuleFamily,
    /// Order; lower values come first. Table `main` has 32766.
    pub priority: u32,
    /// Range of source addresses; `None` for all.
    pub source: Option<IpNet>,
    /// Mark of the packet; `None` for all.
    pub mark: Option<RuleMark>,
    /// Table.
    pub table: RouteTable,
    /// Origin: `RTPROT_…`, or a number that identifies the rules of a program.
    pub protocol: u8,
}

impl Connection {
    /// Returns the rules that look up a table, of both families. Rules with conditions that [`Rule`] does not have are
    /// listed without these.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn rules(&mut self) -> Result<Vec<Rule>, RouteError> {
        let request = || Request::new(libc::RTM_GETRULE, libc::NLM_F_DUMP, &[0; FIXED_BYTES]);
        self.dump("list policy rules", request, parse)
    }

    /// Adds a rule.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if there is an equal one.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), RouteError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = request(libc::RTM_NEWRULE, flags, rule);
        self.execute(
            format!("add policy rule with priority {}", rule.priority),
            request,
        )
    }

    /// Deletes a rule.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such rule.
    pub fn delete_rule(&mut self, rule: &Rule) -> Result<(), RouteError> {
        let request = request(libc::RTM_DELRULE, 0, rule);
        self.execute(
            format!("remove policy rule with priority {}", rule.priority),
            request,
        )
    }
}

fn request(kind: u16, flags: i32, rule: &Rule) -> Request {
    let mut part = [0; FIXED_BYTES];
    part[0] = rule.family.number();
    part[2] = rule.source.map_or(0, |source| source.prefix_len());
    part[4] = rule.table.byte();
    part[7] = FR_ACT_TO_TBL;
    let mut request = Request::new(kind, flags, &part);
    request
        .number(FRA_PRIORITY, rule.priority)
        .number(FRA_TABLE, rule.table.0)
        .attribute(FRA_PROTOCOL, &[rule.protocol]);
    if let Some(source) = rule.source {
        request.address(FRA_SRC, source.network());
    }
    if let Some(mark) = rule.mark {
        request
            .number(FRA_FWMARK, mark.value)
            .number(FRA_FWMASK, mark.mask);
    }
    request
}

/// Decodes the payload of an `RTM_NEWRULE`; `None` for other families and actions.
pub(super) fn parse(part: &[u8]) -> Option<Rule> {
    let fixed = part.get(..FIXED_BYTES)?;
    let family = match i32::from(fixed[0]) {
        libc::AF_INET => RuleFamily::V4,
        libc::AF_INET6 => RuleFamily::V6,
        _ => return None,
    };
    if fixed[7] != FR_ACT_TO_TBL {
        return None;
    }
    let prefix_length = fixed[2];
    let mut source = (prefix_length > 0).then(|| family.unspecified());
    let (mut table, mut priority, mut protocol) = (u32::from(fixed[4]), 0, 0);
    let (mut value, mut mask) = (None, None);
    for attribute in attributes(part.get(FIXED_BYTES..)?) {
        let Attribute { kind, value: bytes } = attribute;
        match kind {
            FRA_SRC => source = Some(read_address(bytes)?),
            FRA_PRIORITY => priority = read_u32(bytes, 0)?,
            FRA_TABLE => table = read_u32(bytes, 0)?,
            FRA_FWMARK => value = read_u32(bytes, 0),
            FRA_FWMASK => mask = read_u32(bytes, 0),
            FRA_PROTOCOL => protocol = attribute.u8()?,
            _ => {}
        }
    }
    let source = match source {
        Some(address) => Some(IpNet::new(address, prefix_length).ok()?),
        None => None,
    };
    // The kernel omits the value 0, and reports a mask with each mark.
    let mark = mask.map(|mask| RuleMark {
        value: value.unwrap_or(0),
        mask,
    });
    Some(Rule {
        family,
        priority,
        source,
        mark,
        table: RouteTable(table),
        protocol,
    })
}

#[cfg(test)]
mod tests;
