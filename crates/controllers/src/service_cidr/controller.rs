//! State machine of the ServiceCIDR controller. Inputs are ServiceCIDRs, IPAddresses and time; outputs are steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use api::object::{IpAddress, ServiceCidr};
use client::{Event, WallClock};
use jiff::Timestamp;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::reconcile::{Inputs, Step, reconcile};
use super::write::WriteResult;
use crate::caches::Tombstones;
use crate::malformed_object::log_malformed;

/// A change that a watch reports.
pub(super) enum Change {
    Cidr(Event<ServiceCidr>),
    Address(Event<IpAddress>),
}

/// A step to write.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) cidr: ServiceCidr,
    pub(super) step: Step,
    /// Timestamp of the write.
    pub(super) time: Timestamp,
}

/// A ServiceCIDR with the time at which its deletion was observed.
struct CachedCidr {
    cidr: ServiceCidr,
    deleted_since: Option<Instant>,
}

/// Maintains finalizers and conditions of ServiceCIDRs.
pub(super) struct ServiceCidrController {
    clock: WallClock,
    are_cidrs_synced: bool,
    are_addresses_synced: bool,
    cidrs: BTreeMap<String, CachedCidr>,
    tombstones: Tombstones,
    /// Addresses in use by Services.
    addresses: BTreeSet<IpAddr>,
}

impl ServiceCidrController {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_cidrs_synced: false,
            are_addresses_synced: false,
            cidrs: BTreeMap::new(),
            tombstones: Tombstones::default(),
            addresses: BTreeSet::new(),
        }
    }

    fn apply_cidr_event(&mut self, event: Event<ServiceCidr>, queue: &mut Queue<String>, now: Instant) {
        match event {
            Event::Applied(cidr) => self.apply(cidr, queue, now),
            Event::Deleted(key) => {
                if let Some(gone) = self.cidrs.remove(&*key.name) {
                    self.tombstones.insert(&gone.cidr.metadata.uid);
                }
            }
            Event::Synced => self.are_cidrs_synced = true,
            Event::Malformed { key, error } => log_malformed::<ServiceCidr>(&key, &error),
        }
    }

    fn apply_address_event(&mut self, event: Event<IpAddress>) {
        let of = |name: &str| name.parse::<IpAddr>().ok();
        match event {
            Event::Applied(address) => self.addresses.extend(of(&address.metadata.name)),
            Event::Deleted(key) => {
                if let Some(address) = of(&key.name) {
                    self.addresses.remove(&address);
                }
            }
            Event::Synced => self.are_addresses_synced = true,
            Event::Malformed { key, error } => log_malformed::<IpAddress>(&key, &error),
        }
    }

    /// Applies a ServiceCIDR from the watch or a response, unless it is older than the cached one.
    fn apply(&mut self, cidr: ServiceCidr, queue: &mut Queue<String>, now: Instant) {
        let version = |cidr: &ServiceCidr| cidr.metadata.resource_version.parse().unwrap_or(0_u64);
        let name = cidr.metadata.name.clone();
        let known = self.cidrs.get(&name);
        let is_old = known.is_some_and(|known| version(&known.cidr) > version(&cidr));
        if is_old || self.tombstones.contains(&cidr.metadata.uid) {
            return;
        }
        let is_same = |known: &&CachedCidr| known.cidr.metadata.uid == cidr.metadata.uid;
        let since = known.filter(is_same).and_then(|known| known.deleted_since);
        let deleted_since = cidr
            .metadata
            .deletion_timestamp
            .as_ref()
            .map(|_| since.unwrap_or(now));
        self.cidrs
            .insert(name.clone(), CachedCidr { cidr, deleted_since });
        queue.add(name, now);
    }

    /// Adds the ServiceCIDRs that are being deleted to the queue: a change of another range or address may
    /// release them.
    fn enqueue_deleted(&self, queue: &mut Queue<String>, now: Instant) {
        let deleted = self.cidrs.iter();
        let deleted = deleted.filter(|(_, known)| known.deleted_since.is_some());
        for (name, _) in deleted {
            queue.add(name.clone(), now);
        }
    }
}

impl Reconciler for ServiceCidrController {
    type Change = Change;
    type Key = String;
    type Job = Job;
    /// UID of the written ServiceCIDR, with the result.
    type Output = (String, Option<WriteResult>);
    /// Maximum number of concurrent jobs: a cluster has few ServiceCIDRs.
    const CONCURRENT_JOBS_MAX: usize = 2;

    fn apply_change(&mut self, change: Change, queue: &mut Queue<String>, now: Instant) {
        match change {
            Change::Cidr(event) => self.apply_cidr_event(event, queue, now),
            Change::Address(event) => self.apply_address_event(event),
        }
        self.enqueue_deleted(queue, now);
    }

    fn is_synced(&self) -> bool {
        self.are_cidrs_synced && self.are_addresses_synced
    }

    fn reconcile(&mut self, name: &String, now: Instant) -> Action<Job> {
        let Some(CachedCidr { cidr, deleted_since }) = self.cidrs.get(name) else {
            return Action::Done;
        };
        let deleted_for = deleted_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let decision = reconcile(&Inputs {
            cidr,
            all: &self.cidrs.values().map(|known| &known.cidr).collect::<Vec<_>>(),
            addresses: &self.addresses,
            deleted_for,
        });
        match (decision.step, decision.requeue_after) {
            (Some(step), _) => Action::Run(Job {
                cidr: cidr.clone(),
                step,
                time: self.clock.now(),
            }),
            (None, Some(pause)) => Action::RequeueAfter(pause),
            (None, None) => Action::Done,
        }
    }

    fn on_success(&mut self, name: &String, output: Self::Output, queue: &mut Queue<String>, now: Instant) {
        match output {
            (_, Some(WriteResult::Current(cidr))) => self.apply(*cidr, queue, now),
            (uid, Some(WriteResult::Deleted)) => {
                self.tombstones.insert(&uid);
                if self
                    .cidrs
                    .get(name)
                    .is_some_and(|known| known.cidr.metadata.uid == uid)
                {
                    self.cidrs.remove(name);
                }
                self.enqueue_deleted(queue, now);
            }
            (_, None) => {}
        }
    }
}
