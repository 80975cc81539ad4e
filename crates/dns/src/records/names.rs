//! Answers in the reverse zones, most of all to PTR.

use std::net::IpAddr;

use super::resolve::{Answering, Found};
use super::reverse::{address_of_v4_name, address_of_v6_name};
use super::service::Label;
use crate::wire::{Name, NameRef, Section, kind};

/// `in-addr.arpa`.
const V4_ZONE: &[u8] = b"\x07in-addr\x04arpa\0";
/// `ip6.arpa`.
const V6_ZONE: &[u8] = b"\x03ip6\x04arpa\0";

impl Answering<'_, '_, '_> {
    /// Answers for a name in a reverse zone. What has no name here may have one upstream.
    pub(super) fn reverse(&mut self, name: &Name, kind: u16) -> Found {
        match kind {
            kind::AXFR | kind::IXFR => Found::Refused,
            kind::SOA if self.zone_at == 0 => self.all(|a| a.put_soa(Section::Answer)),
            kind::SOA | kind::TXT => Found::NoData,
            _ if self.zone_at == 0 => Found::NoData,
            kind::PTR => {
                let v4 =
                    address_of_v4_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V4_ZONE));
                let v6 =
                    address_of_v6_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V6_ZONE));
                v4.or(v6).map_or(Found::Elsewhere, |address| self.names(address))
            }
            _ => Found::Elsewhere,
        }
    }

    /// Answers PTR: the Service that has the address, else every endpoint that has it (DNS-07, DNS-11, DNS-19).
    fn names(&mut self, address: IpAddr) -> Found {
        let index = self.index;
        let zone = index.settings.cluster_domain.as_wire();
        let mut put = |label: &[u8], service: &[u8]| {
            let mut name = Name::ROOT;
            let whole = [label, service, b"\x03svc", zone]
                .into_iter()
                .try_for_each(|part| name.push_wire(part));
            let target = NameRef::Whole(name.as_wire());
            // A Service whose names would be too long for DNS has none.
            if whole.is_ok()
                && self
                    .reply
                    .target(Section::Answer, NameRef::QUESTION, kind::PTR, self.ttl, target)
                    .is_err()
            {
                self.reply.set_truncated();
            }
        };
        let is_service = index.cluster_ips.read(address, |owners| {
            owners
                .iter()
                .find(|owner| index.is_exposed(owner.service.labels()))
                .map(|owner| put(&[], owner.service.labels()))
                .is_some()
        });
        if is_service {
            return Found::Records;
        }
        index.endpoints.read(address, |owners| {
            let mut found = Found::Elsewhere;
            for owner in owners {
                if !index.is_exposed(owner.service.labels()) {
                    continue;
                }
                found = Found::Records;
                let label = Label::of_endpoint(owner.hostname.as_deref(), address);
                put(label.as_wire(), owner.service.labels());
            }
            found
        })
    }
}

/// The address that a name in a reverse zone, in lower case, stands for.
pub(super) fn reverse_address(name: &Name) -> Option<IpAddr> {
    let at = reverse_zone_offset(name)?;
    match is_zone(name, at, V4_ZONE) {
        true => address_of_v4_name(name, at),
        false => address_of_v6_name(name, at),
    }
}

/// Where a reverse zone begins in `name`, if the name is in one.
pub(super) fn reverse_zone_offset(name: &Name) -> Option<usize> {
    let wire = name.as_wire();
    let zone = [V4_ZONE, V6_ZONE].into_iter().find(|zone| wire.ends_with(zone))?;
    let at = wire.len() - zone.len();
    // A label may end with the octets of a zone's name; only a label's start makes it a zone.
    name.labels().any(|(start, _)| start == at).then_some(at)
}

fn is_zone(name: &Name, at: usize, zone: &[u8]) -> bool {
    name.from_offset(at) == zone
}
