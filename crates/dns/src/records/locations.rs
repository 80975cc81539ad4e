//! Answers to SRV: where a Service's ports are.

use super::grammar::Part;
use super::resolve::{Answering, Found};
use super::select::{Endpoints, Selection};
use super::service::Port;
use crate::wire::{Name, NameRef};

impl Answering<'_, '_, '_> {
    /// Answers SRV for a Service whose name begins at `at`.
    pub(super) fn services(&mut self, key: &[u8], at: usize, part: Part<'_>) -> Found {
        let index = self.index;
        index.with_selection(key, part, |selection| match selection {
            Selection::Nothing => Found::NoName,
            Selection::External(_) | Selection::ClusterIps([], _) => Found::NoData,
            Selection::ClusterIps(addresses, ports) => {
                let meant = ports.iter().filter(|port| part.admits(port));
                let weight = weight(meant.clone().count() * addresses.len());
                let found = self.cluster_ip_services(at, weight, meant);
                for address in addresses {
                    self.put_additional(NameRef::in_question(at), *address);
                }
                found
            }
            Selection::Endpoints(endpoints) => self.endpoint_services(at, part, endpoints),
        })
    }

    fn cluster_ip_services<'p>(
        &mut self,
        at: usize,
        weight: u16,
        ports: impl Iterator<Item = &'p Port>,
    ) -> Found {
        self.scratch.seen.clear();
        let target = self.spelled_below(&[], at);
        let mut found = Found::NoData;
        for number in ports.filter_map(|port| port.number) {
            if self.scratch.is_new(number) {
                found = Found::Records;
                if self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                    .is_err()
                {
                    self.reply.set_truncated();
                }
            }
        }
        found
    }

    fn endpoint_services(&mut self, at: usize, part: Part<'_>, endpoints: Endpoints<'_>) -> Found {
        let meant = |ports: &'_ [Port]| ports.iter().filter(|port| part.admits(port)).count();
        let weight = weight(endpoints.iter().map(|(slice, _)| meant(&slice.ports)).sum());
        let count = endpoints.iter().count();
        self.scratch.seen.clear();
        let mut found = Found::NoData;
        'records: for (slice, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
            let label = endpoint.label();
            let ports = slice.ports.iter().filter(|port| part.admits(port));
            for number in ports.filter_map(|port| port.number) {
                if !self.scratch.is_new((label.as_wire(), number)) {
                    continue;
                }
                found = Found::Records;
                let target = self.spelled_below(label.as_wire(), at);
                if self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                    .is_err()
                {
                    self.reply.set_truncated();
                    break 'records;
                }
            }
        }
        if matches!(found, Found::Records) {
            self.scratch.seen.clear();
            for (slice, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
                let label = endpoint.label();
                let has_port = slice
                    .ports
                    .iter()
                    .any(|port| port.number.is_some() && part.admits(port));
                if has_port && self.scratch.is_new((label.as_wire(), endpoint.address)) {
                    let owner = NameRef::below_question(label.as_wire(), at);
                    if !self.put_additional(owner, endpoint.address) {
                        break;
                    }
                }
            }
        }
        found
    }

    /// Labels in front of the part of the name asked for that begins at `at`, spelled as it was asked.
    fn spelled_below(&self, labels: &[u8], at: usize) -> Name {
        let mut name = Name::ROOT;
        let asked = self.reply.query().name.from_offset(at);
        match name.push_wire(labels).and_then(|()| name.push_wire(asked)) {
            Ok(()) => name,
            Err(_) => Name::ROOT,
        }
    }
}

/// The weight of each of so many SRV records, which share 100 among them, each at least 1.
fn weight(records: usize) -> u16 {
    const SHARED: usize = 100;
    let each = SHARED.checked_div(records).unwrap_or(SHARED).max(1);
    u16::try_from(each).unwrap_or(1)
}
