//! Answers to A, AAAA and CNAME queries; follows aliases.

use std::net::IpAddr;

use super::grammar::{self, Part, QueryTarget};
use super::pod_label;
use super::resolve::{LookupResult, Resolver};
use super::selection::{Endpoints, Selection};
use crate::wire::{Name, NameRef, Section, kind};

/// Limit of ExternalName Services that one answer follows; it ends loops.
const ALIASES_MAX: u8 = 8;

impl Resolver<'_, '_, '_> {
    /// Writes the A or AAAA records of `name`, with the owner name `owner`.
    pub(super) fn addresses(
        &mut self,
        name: &Name,
        query_target: QueryTarget<'_>,
        owner: NameRef<'_>,
        chain: u8,
    ) -> LookupResult {
        let put = |resolver: &mut Self, address: IpAddr| {
            resolver
                .reply
                .address(Section::Answer, owner, resolver.ttl, address)
        };
        match query_target {
            QueryTarget::Service { key, part, .. } => {
                let (index, mut target) = (self.index, Name::ROOT);
                let result = index.with_selection(key, part, |selection| match selection {
                    Selection::Nothing => Some(LookupResult::NameError),
                    Selection::ClusterIps(addresses, _) => {
                        let first = addresses
                            .iter()
                            .copied()
                            .find(|address| self.matches_query_type(*address));
                        Some(first.map_or(LookupResult::NoData, |first| {
                            self.all(|resolver| put(resolver, first))
                        }))
                    }
                    Selection::Endpoints(endpoints) => Some(self.endpoint_addresses(endpoints, owner)),
                    Selection::External(name) => {
                        target.push_wire(name).err().map(|_| LookupResult::NameError)
                    }
                });
                // The alias is followed after the Service is unlocked, because its target may be another Service.
                result.unwrap_or_else(|| self.follow_alias(name, &target, owner, chain))
            }
            QueryTarget::Pod { label, namespace } => match pod_label::address_of_label(label) {
                Some(address)
                    if self.index.has_pod(address, namespace) && self.matches_query_type(address) =>
                {
                    self.all(|resolver| put(resolver, address))
                }
                _ => self.existence(query_target),
            },
            QueryTarget::NameServer => {
                let servers = self.index.name_servers().into_iter();
                let addresses: Vec<IpAddr> = servers
                    .map(|(_, address)| address)
                    .filter(|address| self.matches_query_type(*address))
                    .collect();
                if addresses.is_empty() {
                    return LookupResult::NoData;
                }
                self.all(|resolver| {
                    addresses
                        .into_iter()
                        .try_for_each(|address| put(resolver, address))
                })
            }
            _ => self.existence(query_target),
        }
    }

    /// Writes that the query name is an alias of `target`, which is in the zone too, with the addresses of the
    /// target.
    pub(super) fn answer_with_alias(&mut self, target: &Name) -> LookupResult {
        let lower = target.to_lower();
        let Some(zone_at) = lower.suffix_offset(&self.index.settings.cluster_domain) else {
            return LookupResult::NameError;
        };
        let savepoint = self.reply.savepoint();
        let labels = target.as_wire().get(..zone_at).unwrap_or_default();
        let below = NameRef::below_question(labels, self.zone_at);
        let Some(at) = self.put_alias(NameRef::QUESTION, below) else {
            return LookupResult::Records;
        };
        let result = self.addresses(
            &lower,
            grammar::read(&lower, zone_at, self.index.settings.kind),
            NameRef::At(at),
            1,
        );
        if matches!(result, LookupResult::NameError) {
            self.reply.rollback(savepoint);
        }
        result
    }

    /// Writes an alias and the addresses of its target. An alias without addresses is rolled back.
    fn follow_alias(&mut self, name: &Name, target: &Name, owner: NameRef<'_>, chain: u8) -> LookupResult {
        let lower = target.to_lower();
        if lower.is_within(name) || chain >= ALIASES_MAX {
            return LookupResult::NoData;
        }
        let Some(zone_at) = lower.suffix_offset(&self.index.settings.cluster_domain) else {
            let written = self.put_alias(owner, NameRef::Whole(target.as_wire()));
            return if written.is_some() {
                LookupResult::External(Box::new(*target))
            } else {
                LookupResult::Records
            };
        };
        let savepoint = self.reply.savepoint();
        let labels = target.as_wire().get(..zone_at).unwrap_or_default();
        let Some(at) = self.put_alias(owner, NameRef::below_question(labels, self.zone_at)) else {
            return LookupResult::Records;
        };
        match self.addresses(
            &lower,
            grammar::read(&lower, zone_at, self.index.settings.kind),
            NameRef::At(at),
            chain + 1,
        ) {
            result @ (LookupResult::Records | LookupResult::External(_)) => result,
            _ => {
                self.reply.rollback(savepoint);
                LookupResult::NoData
            }
        }
    }

    fn endpoint_addresses(&mut self, endpoints: Endpoints<'_>, owner: NameRef<'_>) -> LookupResult {
        self.scratch.seen.clear();
        let count = endpoints.iter().count();
        let mut result = LookupResult::NoData;
        for (_, endpoint) in endpoints.iter_rotated(self.scratch.rotation, count) {
            if !self.matches_query_type(endpoint.address) || !self.scratch.is_new(endpoint.address) {
                continue;
            }
            result = LookupResult::Records;
            if self
                .reply
                .address(Section::Answer, owner, self.ttl, endpoint.address)
                .is_err()
            {
                self.reply.set_truncated();
                break;
            }
        }
        result
    }

    /// Writes the CNAME record of a Service.
    pub(super) fn alias(&mut self, key: &[u8], part: Part<'_>) -> LookupResult {
        let index = self.index;
        index.with_selection(key, part, |selection| match selection {
            Selection::Nothing => LookupResult::NameError,
            Selection::External(target) => {
                self.put_alias(NameRef::QUESTION, NameRef::Whole(target));
                LookupResult::Records
            }
            Selection::ClusterIps(..) | Selection::Endpoints(_) => LookupResult::NoData,
        })
    }

    /// Writes a CNAME record and returns the offset of its target, or `None` if the reply is full.
    fn put_alias(&mut self, owner: NameRef<'_>, target: NameRef<'_>) -> Option<u16> {
        let written = self
            .reply
            .target(Section::Answer, owner, kind::CNAME, self.ttl, target);
        if written.is_err() {
            self.reply.set_truncated();
        }
        written.ok()
    }
}
