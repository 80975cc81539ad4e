//! Answers to A, AAAA and CNAME, with aliases followed.

use std::net::IpAddr;

use super::grammar::{self, Asked, Part};
use super::pod;
use super::resolve::{Answering, Found};
use super::select::{Endpoints, Selection};
use crate::wire::{Name, NameRef, Section, kind};

/// ExternalName Services that one answer may lead through. Ends loops among them.
const CHAIN_MAX: u8 = 8;

impl Answering<'_, '_, '_> {
    /// Answers A or AAAA for `name`, whose records belong to `owner`.
    pub(super) fn addresses(
        &mut self,
        name: &Name,
        asked: Asked<'_>,
        owner: NameRef<'_>,
        chain: u8,
    ) -> Found {
        let one = |a: &mut Self, address: IpAddr| a.reply.address(Section::Answer, owner, a.ttl, address);
        match asked {
            Asked::Service { key, part, .. } => {
                let (index, mut target) = (self.index, Name::ROOT);
                let found = index.with_selection(key, part, |selection| match selection {
                    Selection::Nothing => Some(Found::NoName),
                    Selection::ClusterIps(addresses, _) => {
                        let first = addresses.iter().copied().find(|address| self.wants(*address));
                        Some(first.map_or(Found::NoData, |first| self.all(|a| one(a, first))))
                    }
                    Selection::Endpoints(endpoints) => Some(self.endpoint_addresses(endpoints, owner)),
                    Selection::External(name) => target.push_wire(name).err().map(|_| Found::NoName),
                });
                // The alias is followed after the Service is unlocked, for it may lead to another one.
                found.unwrap_or_else(|| self.follow(name, &target, owner, chain))
            }
            Asked::Pod { label, namespace } => match pod::address_of_label(label) {
                Some(address) if self.index.has_pod(address, namespace) && self.wants(address) => {
                    self.all(|a| one(a, address))
                }
                _ => self.existence(asked),
            },
            Asked::NameServer => {
                let servers = self.index.name_servers().into_iter();
                let wanted: Vec<IpAddr> = servers.map(|(_, a)| a).filter(|a| self.wants(*a)).collect();
                if wanted.is_empty() {
                    return Found::NoData;
                }
                self.all(|a| wanted.into_iter().try_for_each(|address| one(a, address)))
            }
            _ => self.existence(asked),
        }
    }

    /// Adds the name asked for as an alias of `target`, which is in the zone too, with the target's addresses.
    pub(super) fn lead_to(&mut self, target: &Name) -> Found {
        let lower = target.to_lower();
        let Some(zone_at) = lower.suffix_offset(&self.index.settings.cluster_domain) else {
            return Found::NoName;
        };
        let mark = self.reply.mark();
        let labels = target.as_wire().get(..zone_at).unwrap_or_default();
        let below = NameRef::below_question(labels, self.zone_at);
        let Some(at) = self.put_alias(NameRef::QUESTION, below) else {
            return Found::Records;
        };
        let found = self.addresses(&lower, grammar::read(&lower, zone_at), NameRef::At(at), 1);
        if matches!(found, Found::NoName) {
            self.reply.rollback(mark);
        }
        found
    }

    /// Adds the alias of `name` and what is at its end. An alias that leads nowhere is left out.
    fn follow(&mut self, name: &Name, target: &Name, owner: NameRef<'_>, chain: u8) -> Found {
        let lower = target.to_lower();
        if lower.is_within(name) || chain >= CHAIN_MAX {
            return Found::NoData;
        }
        let Some(zone_at) = lower.suffix_offset(&self.index.settings.cluster_domain) else {
            let written = self.put_alias(owner, NameRef::Whole(target.as_wire()));
            return if written.is_some() {
                Found::External(Box::new(*target))
            } else {
                Found::Records
            };
        };
        let mark = self.reply.mark();
        let labels = target.as_wire().get(..zone_at).unwrap_or_default();
        let Some(at) = self.put_alias(owner, NameRef::below_question(labels, self.zone_at)) else {
            return Found::Records;
        };
        match self.addresses(&lower, grammar::read(&lower, zone_at), NameRef::At(at), chain + 1) {
            found @ (Found::Records | Found::External(_)) => found,
            _ => {
                self.reply.rollback(mark);
                Found::NoData
            }
        }
    }

    fn endpoint_addresses(&mut self, endpoints: Endpoints<'_>, owner: NameRef<'_>) -> Found {
        self.scratch.seen.clear();
        let count = endpoints.iter().count();
        let mut found = Found::NoData;
        for (_, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
            if !self.wants(endpoint.address) || !self.scratch.is_new(endpoint.address) {
                continue;
            }
            found = Found::Records;
            if self
                .reply
                .address(Section::Answer, owner, self.ttl, endpoint.address)
                .is_err()
            {
                self.reply.set_truncated();
                break;
            }
        }
        found
    }

    /// Answers CNAME.
    pub(super) fn alias(&mut self, key: &[u8], part: Part<'_>) -> Found {
        let index = self.index;
        index.with_selection(key, part, |selection| match selection {
            Selection::Nothing => Found::NoName,
            Selection::External(target) => {
                self.put_alias(NameRef::QUESTION, NameRef::Whole(target));
                Found::Records
            }
            Selection::ClusterIps(..) | Selection::Endpoints(_) => Found::NoData,
        })
    }

    /// Adds a CNAME; returns where its target stands, or nothing if the reply is full.
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
