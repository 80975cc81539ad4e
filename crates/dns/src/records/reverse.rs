//! Answers in the reverse zones: PTR, SOA and negative answers.

use std::net::IpAddr;

use super::resolve::{LookupResult, Resolver};
use super::reverse_index::{address_of_v4_name, address_of_v6_name};
use super::service::Label;
use crate::wire::{Name, NameRef, Section, kind};

/// `in-addr.arpa`.
const V4_ZONE: &[u8] = b"\x07in-addr\x04arpa\0";
/// `ip6.arpa`.
const V6_ZONE: &[u8] = b"\x03ip6\x04arpa\0";

impl Resolver<'_, '_, '_> {
    /// Answers a query in a reverse zone. Names without a record may exist at a resolver.
    pub(super) fn reverse(&mut self, name: &Name, kind: u16) -> LookupResult {
        match kind {
            kind::AXFR | kind::IXFR => LookupResult::Refused,
            kind::SOA if self.zone_at == 0 => self.all(|resolver| resolver.put_soa(Section::Answer)),
            kind::SOA => LookupResult::NoData,
            // As CoreDNS, which finds no Service for TXT here and falls through (DNS-15).
            kind::TXT => LookupResult::OutsideZone,
            _ if self.zone_at == 0 => LookupResult::NoData,
            kind::PTR => {
                let v4 =
                    address_of_v4_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V4_ZONE));
                let v6 =
                    address_of_v6_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V6_ZONE));
                v4.or(v6)
                    .map_or(LookupResult::OutsideZone, |address| self.names(address))
            }
            _ => LookupResult::OutsideZone,
        }
    }

    /// Writes PTR records: the Service with the address as cluster IP, else all endpoints with it (DNS-07, DNS-11,
    /// DNS-19).
    fn names(&mut self, address: IpAddr) -> LookupResult {
        let index = self.index;
        let zone = index.settings.cluster_domain.as_wire();
        let mut put = |label: &[u8], service: &[u8]| {
            let mut name = Name::ROOT;
            let whole = [label, service, b"\x03svc", zone]
                .into_iter()
                .try_for_each(|part| name.push_wire(part));
            let target = NameRef::Whole(name.as_wire());
            // A Service whose names exceed the limit of DNS has none.
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
            return LookupResult::Records;
        }
        index.endpoints.read(address, |owners| {
            let mut result = LookupResult::OutsideZone;
            for owner in owners {
                if !index.is_exposed(owner.service.labels()) {
                    continue;
                }
                result = LookupResult::Records;
                let label = Label::of_endpoint(owner.hostname.as_deref(), address);
                put(label.as_wire(), owner.service.labels());
            }
            result
        })
    }
}

/// Returns the address of a name in a reverse zone; the name is in lower case.
pub(super) fn reverse_address(name: &Name) -> Option<IpAddr> {
    let at = reverse_zone_offset(name)?;
    if is_zone(name, at, V4_ZONE) {
        address_of_v4_name(name, at)
    } else {
        address_of_v6_name(name, at)
    }
}

/// Returns the offset of the reverse zone in `name`, if the name is in one.
pub(super) fn reverse_zone_offset(name: &Name) -> Option<usize> {
    let wire = name.as_wire();
    let zone = [V4_ZONE, V6_ZONE].into_iter().find(|zone| wire.ends_with(zone))?;
    let at = wire.len() - zone.len();
    // A label may end with the octets of the zone's name; only an offset where a label starts counts.
    name.labels().any(|(start, _)| start == at).then_some(at)
}

fn is_zone(name: &Name, at: usize, zone: &[u8]) -> bool {
    name.from_offset(at) == zone
}
