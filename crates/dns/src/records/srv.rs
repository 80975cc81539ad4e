//! Answers to SRV queries: targets and ports of Services.

use super::grammar::{Part, QueryTarget};
use super::pod_label;
use super::resolve::{LookupResult, Resolver};
use super::selection::{Endpoints, Selection};
use super::service::{Port, Slice};
use crate::wire::{Name, NameRef, ResponseFull};

impl Resolver<'_, '_, '_> {
    /// Writes the SRV records of a Service whose name begins at offset `at`.
    pub(super) fn services(&mut self, key: &[u8], at: usize, part: Part<'_>) -> LookupResult {
        let index = self.index;
        index.with_selection(key, part, |selection| match selection {
            Selection::Nothing => LookupResult::NameError,
            Selection::External(_) | Selection::ClusterIps([], _) => LookupResult::NoData,
            Selection::ClusterIps(addresses, ports) => {
                let matching = ports.iter().filter(|port| part.includes(port));
                let weight = weight(matching.clone().count() * addresses.len());
                let result = self.cluster_ip_services(at, weight, matching);
                for address in addresses {
                    self.put_additional(NameRef::in_question(at), *address);
                }
                result
            }
            Selection::Endpoints(endpoints) => self.endpoint_services(at, part, endpoints),
        })
    }

    fn cluster_ip_services<'p>(
        &mut self,
        at: usize,
        weight: u16,
        ports: impl Iterator<Item = &'p Port>,
    ) -> LookupResult {
        self.scratch.seen.clear();
        let Some(target) = self.name_below(&[], at) else {
            return LookupResult::NoData;
        };
        let mut result = LookupResult::NoData;
        for number in ports.filter_map(|port| port.number) {
            if self.scratch.is_new(number) {
                result = LookupResult::Records;
                if self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                    .is_err()
                {
                    self.reply.set_truncated();
                    break;
                }
            }
        }
        result
    }

    /// Answers with an SRV record for each endpoint and matching port.
    fn endpoint_services(&mut self, at: usize, part: Part<'_>, endpoints: Endpoints<'_>) -> LookupResult {
        let (count, records) = counts(&endpoints, part);
        let weight = weight(records);
        self.scratch.seen.clear();
        self.scratch.clear_targets();
        let mut result = LookupResult::NoData;
        'records: for (slice, endpoint) in endpoints.iter_rotated(self.scratch.rotation, count) {
            let label = slice.labels_of(endpoint);
            let Some(target) = self.name_below(label.as_wire(), at) else {
                continue;
            };
            let ports = slice.ports.iter().filter(|port| part.includes(port));
            for number in ports.filter_map(|port| port.number) {
                if !self.scratch.is_new((label.as_wire(), number)) {
                    continue;
                }
                result = LookupResult::Records;
                match self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                {
                    Ok(at) => self.scratch.record_target(label.as_wire(), at),
                    Err(ResponseFull) => {
                        self.reply.set_truncated();
                        break 'records;
                    }
                }
            }
        }
        if matches!(result, LookupResult::Records) {
            self.scratch.seen.clear();
            for (slice, endpoint) in endpoints.iter_rotated(self.scratch.rotation, count) {
                let label = slice.labels_of(endpoint);
                let has_port = slice
                    .ports
                    .iter()
                    .any(|port| port.number.is_some() && part.includes(port));
                let has_name = self.name_below(label.as_wire(), at).is_some();
                if has_port && has_name && self.scratch.is_new((label.as_wire(), endpoint.address)) {
                    let owner = match self.scratch.target(label.as_wire()) {
                        Some(target) => NameRef::At(target),
                        None => NameRef::below_question(label.as_wire(), at),
                    };
                    if !self.put_additional(owner, endpoint.address) {
                        break;
                    }
                }
            }
        }
        result
    }

    /// Writes the SRV record of a Pod name. As in CoreDNS, its port is 0, because the name of a Pod has no port.
    pub(super) fn pod_location(&mut self, label: &[u8], namespace: &[u8]) -> LookupResult {
        let address =
            pod_label::address_of_label(label).filter(|address| self.index.has_pod(*address, namespace));
        let Some(address) = address else {
            return self.existence(QueryTarget::Pod { label, namespace });
        };
        let zone = self.index.settings.cluster_domain.as_wire();
        let mut target = Name::ROOT;
        let whole = target.push_label(label).and_then(|()| {
            let rest = [namespace, b"\x03pod", zone];
            rest.into_iter().try_for_each(|part| target.push_wire(part))
        });
        if whole.is_err() {
            return LookupResult::NoData;
        }
        match self.reply.srv(NameRef::QUESTION, self.ttl, weight(1), 0, &target) {
            Ok(at) => {
                let owner = at.map_or(NameRef::Whole(target.as_wire()), NameRef::At);
                self.put_additional(owner, address);
            }
            Err(ResponseFull) => self.reply.set_truncated(),
        }
        LookupResult::Records
    }

    /// Returns the labels in front of the rest of the query name that begins at `at`, in the case of the query; `None`
    /// if the name exceeds the limit of DNS. An endpoint without name has no records.
    fn name_below(&self, labels: &[u8], at: usize) -> Option<Name> {
        let mut name = Name::ROOT;
        let suffix = self.reply.query().name.from_offset(at);
        let whole = name.push_wire(labels).and_then(|()| name.push_wire(suffix));
        whole.is_ok().then_some(name)
    }
}

/// Returns the number of endpoints, and the number of SRV records with their matching ports.
fn counts(endpoints: &Endpoints<'_>, part: Part<'_>) -> (usize, usize) {
    let matching = |ports: &[Port]| ports.iter().filter(|port| part.includes(port)).count();
    let (mut count, mut records) = (0, 0);
    // The endpoints of a slice follow each other: its ports, which can be thousands, are counted once.
    let mut counted: Option<(&Slice, usize)> = None;
    for (slice, _) in endpoints.iter() {
        let ports = match counted {
            Some((former, ports)) if std::ptr::eq(former, slice) => ports,
            _ => matching(&slice.ports),
        };
        counted = Some((slice, ports));
        records += ports;
        count += 1;
    }
    (count, records)
}

/// Returns the weight of each SRV record. The records share 100, with at least 1 each.
fn weight(records: usize) -> u16 {
    const SHARED: usize = 100;
    let each = SHARED.checked_div(records).unwrap_or(SHARED).max(1);
    u16::try_from(each).unwrap_or(1)
}
