//! Name servers of the zone (DNS-18).

use std::net::IpAddr;

use super::Index;
use super::grammar::Part;
use super::resolve::{LookupResult, Resolver};
use super::selection::Selection;
use super::service::ServiceKind;
use crate::wire::{NameRef, Section, kind};

impl Index {
    /// Returns the name servers of the zone as labels below the zone, with their addresses. They are the Services with
    /// this server as an endpoint, or else the server itself (DNS-18).
    pub(super) fn name_servers(&self) -> Vec<(Vec<u8>, IpAddr)> {
        let own = &self.settings.own_addresses;
        let mut servers = Vec::new();
        for address in own {
            let services: Vec<_> = self.endpoints.read(*address, |owners| {
                owners.iter().map(|owner| owner.service.clone()).collect()
            });
            for service in services {
                let below = |label: &[u8]| [label, service.labels(), b"\x03svc"].concat();
                self.with_entry(service.labels(), |entry| {
                    let Some(data) = entry.and_then(|entry| entry.service.as_ref()) else {
                        return;
                    };
                    let cluster_ips = data.cluster_ips().iter().map(|address| (below(&[]), *address));
                    servers.extend(cluster_ips);
                    if let (ServiceKind::Headless, Some(entry)) = (&data.kind, entry)
                        && let Selection::Endpoints(endpoints) =
                            self.filter(service.labels(), entry, Part::Whole)
                    {
                        let named = endpoints.iter().map(|(slice, endpoint)| {
                            (below(slice.labels_of(endpoint).as_wire()), endpoint.address)
                        });
                        servers.extend(named);
                    }
                });
            }
        }
        if servers.is_empty() {
            servers.extend(own.iter().map(|address| (b"\x02ns\x03dns".to_vec(), *address)));
        }
        servers
    }
}

impl Resolver<'_, '_, '_> {
    /// Writes the NS records of the zone.
    pub(super) fn put_name_servers(&mut self) -> LookupResult {
        let servers = self.index.name_servers();
        if servers.is_empty() {
            return LookupResult::NoData;
        }
        let (zone_at, ttl) = (self.zone_at, self.ttl);
        self.scratch.seen.clear();
        let result = self.all(|resolver| {
            servers
                .iter()
                .filter(|(labels, _)| resolver.scratch.is_new(labels))
                .try_for_each(|(labels, _)| {
                    let target = NameRef::below_question(labels, zone_at);
                    resolver
                        .reply
                        .target(Section::Answer, NameRef::QUESTION, kind::NS, ttl, target)
                        .map(|_| ())
                })
        });
        for (labels, address) in &servers {
            self.put_additional(NameRef::below_question(labels, zone_at), *address);
        }
        result
    }
}
