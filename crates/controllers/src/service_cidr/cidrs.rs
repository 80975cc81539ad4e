//! All ServiceCIDRs, the addresses in use, and who is next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use api::object::{IpAddress, ServiceCidr};
use client::{Event, WallClock};
use jiff::Timestamp;

use super::write::Written;
use super::{Inputs, Step, reconcile};
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;
use crate::world::Graves;

/// Something that arrived.
pub(super) enum Change {
    Cidr(Event<ServiceCidr>),
    Address(Event<IpAddress>),
}

/// A step to be written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) cidr: ServiceCidr,
    pub(super) step: Step,
    /// The time that the write says.
    pub(super) time: Timestamp,
}

/// A ServiceCIDR, and since when its deletion is known.
struct Known {
    cidr: ServiceCidr,
    deleted_since: Option<Instant>,
}

/// The state of the controller.
pub(super) struct Cidrs {
    clock: WallClock,
    are_cidrs_synced: bool,
    are_addresses_synced: bool,
    cidrs: BTreeMap<String, Known>,
    graves: Graves,
    /// The addresses that Services hold.
    addresses: BTreeSet<IpAddr>,
}

impl Cidrs {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_cidrs_synced: false,
            are_addresses_synced: false,
            cidrs: BTreeMap::new(),
            graves: Graves::default(),
            addresses: BTreeSet::new(),
        }
    }

    fn take_cidr(&mut self, event: Event<ServiceCidr>, queue: &mut Queue<String>, now: Instant) {
        match event {
            Event::Applied(cidr) => self.apply(cidr, queue, now),
            Event::Deleted(key) => {
                if let Some(gone) = self.cidrs.remove(&*key.name) {
                    self.graves.bury(&gone.cidr.metadata.uid);
                }
            }
            Event::Synced => self.are_cidrs_synced = true,
            Event::Malformed { key, error } => malformed::skip::<ServiceCidr>(&key, &error),
        }
    }

    fn take_address(&mut self, event: Event<IpAddress>) {
        let of = |name: &str| name.parse::<IpAddr>().ok();
        match event {
            Event::Applied(address) => self.addresses.extend(of(&address.metadata.name)),
            Event::Deleted(key) => {
                if let Some(address) = of(&key.name) {
                    self.addresses.remove(&address);
                }
            }
            Event::Synced => self.are_addresses_synced = true,
            Event::Malformed { key, error } => malformed::skip::<IpAddress>(&key, &error),
        }
    }

    /// Takes in a ServiceCIDR from the watch or an answer, unless it is old news.
    fn apply(&mut self, cidr: ServiceCidr, queue: &mut Queue<String>, now: Instant) {
        let version = |cidr: &ServiceCidr| cidr.metadata.resource_version.parse().unwrap_or(0_u64);
        let name = cidr.metadata.name.clone();
        let known = self.cidrs.get(&name);
        let is_old = known.is_some_and(|known| version(&known.cidr) > version(&cidr));
        if is_old || self.graves.hold(&cidr.metadata.uid) {
            return;
        }
        let is_same = |known: &&Known| known.cidr.metadata.uid == cidr.metadata.uid;
        let since = known.filter(is_same).and_then(|known| known.deleted_since);
        let deleted_since = cidr
            .metadata
            .deletion_timestamp
            .as_ref()
            .map(|_| since.unwrap_or(now));
        self.cidrs.insert(name.clone(), Known { cidr, deleted_since });
        queue.add(name, now);
    }

    /// Another range, or none any more, may decide about one that is to go.
    fn look_at_deleted(&self, queue: &mut Queue<String>, now: Instant) {
        let deleted = self.cidrs.iter();
        let deleted = deleted.filter(|(_, known)| known.deleted_since.is_some());
        for (name, _) in deleted {
            queue.add(name.clone(), now);
        }
    }
}

impl Keeper for Cidrs {
    type Change = Change;
    type Key = String;
    type Job = Job;
    /// The incarnation that was written, and what became of it.
    type Answer = (String, Option<Written>);
    /// There are a handful of them.
    const JOBS_MAX: usize = 2;

    fn take(&mut self, change: Change, queue: &mut Queue<String>, now: Instant) {
        match change {
            Change::Cidr(event) => self.take_cidr(event, queue, now),
            Change::Address(event) => self.take_address(event),
        }
        self.look_at_deleted(queue, now);
    }

    fn is_synced(&self) -> bool {
        self.are_cidrs_synced && self.are_addresses_synced
    }

    fn look(&mut self, name: &String, now: Instant) -> Look<Job> {
        let Some(Known { cidr, deleted_since }) = self.cidrs.get(name) else {
            return Look::Fine;
        };
        let deleted_for = deleted_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let outcome = reconcile(&Inputs {
            cidr,
            all: &self.cidrs.values().map(|known| &known.cidr).collect::<Vec<_>>(),
            addresses: &self.addresses,
            deleted_for,
        });
        match (outcome.step, outcome.again_after) {
            (Some(step), _) => Look::Do(Job {
                cidr: cidr.clone(),
                step,
                time: self.clock.now(),
            }),
            (None, Some(pause)) => Look::Again(pause),
            (None, None) => Look::Fine,
        }
    }

    fn answered(&mut self, name: &String, answer: Self::Answer, queue: &mut Queue<String>, now: Instant) {
        match answer {
            (_, Some(Written::Now(cidr))) => self.apply(*cidr, queue, now),
            (uid, Some(Written::Gone)) => {
                self.graves.bury(&uid);
                if self
                    .cidrs
                    .get(name)
                    .is_some_and(|known| known.cidr.metadata.uid == uid)
                {
                    self.cidrs.remove(name);
                }
                self.look_at_deleted(queue, now);
            }
            (_, None) => {}
        }
    }
}
