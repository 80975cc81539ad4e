//! The loop: ServiceCIDRs and addresses in use in, steps out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;

use api::object::{IpAddress, ServiceCidr};
use client::{ClientError, Event, Query, watch};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};

use super::write::carry_out;
use super::{Inputs, MANAGED_BY, MANAGED_BY_LABEL, reconcile};
use crate::queue::{Queue, sleep_until};
use crate::run::{Environment, now};

/// Watch events that wait between a watch's task and the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 256;
/// ServiceCIDRs that are written at the same time; there are a handful.
const CONCURRENT_WRITES: usize = 2;

/// What came of a step on the ServiceCIDR of a name.
type Done = (String, Result<Option<ServiceCidr>, ClientError>);

/// Looks after ServiceCIDRs until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let managed = Query {
        label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    let mut keeper = Keeper {
        cidr_events: watch(&environment.client, Query::default()).into_channel(EVENTS_WAITING_MAX),
        address_events: watch(&environment.client, managed).into_channel(EVENTS_WAITING_MAX),
        environment,
        are_cidrs_synced: false,
        are_addresses_synced: false,
        cidrs: BTreeMap::new(),
        addresses: BTreeSet::new(),
        queue: Queue::default(),
        tasks: JoinSet::new(),
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = keeper.step() => {}
        }
    }
    while let Some(done) = keeper.tasks.join_next().await {
        keeper.finish(done);
    }
}

struct Keeper {
    environment: Environment,
    cidr_events: Receiver<Event<ServiceCidr>>,
    address_events: Receiver<Event<IpAddress>>,
    are_cidrs_synced: bool,
    are_addresses_synced: bool,
    cidrs: BTreeMap<String, ServiceCidr>,
    /// The addresses that Services hold.
    addresses: BTreeSet<IpAddr>,
    queue: Queue<String>,
    tasks: JoinSet<Done>,
}

impl Keeper {
    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake();
        tokio::select! {
            biased;
            Some(done) = self.tasks.join_next() => self.finish(done),
            Some(event) = self.cidr_events.recv() => self.take_cidr(event),
            Some(event) = self.address_events.recv() => self.take_address(event),
            () = sleep_until(wake) => {}
        }
        while let Ok(event) = self.address_events.try_recv() {
            self.take_address(event);
        }
        self.queue.wake(now());
        if self.are_cidrs_synced && self.are_addresses_synced {
            self.start_work();
        }
    }

    fn take_cidr(&mut self, event: Event<ServiceCidr>) {
        match event {
            Event::Applied(cidr) => self.apply(cidr),
            Event::Deleted(key) => {
                self.cidrs.remove(&*key.name);
            }
            Event::Synced => self.are_cidrs_synced = true,
            Event::Malformed { key, error } => {
                tracing::error!(kind = "ServiceCIDR", %key, error, "the object cannot be read and is skipped");
            }
        }
        // Another range may hold what one that goes would leave behind.
        self.look_at_deleted();
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
            Event::Malformed { key, error } => {
                tracing::error!(kind = "IPAddress", %key, error, "the object cannot be read and is skipped");
            }
        }
        self.look_at_deleted();
    }

    /// Takes in a ServiceCIDR from the watch or an answer, unless it is old news.
    fn apply(&mut self, cidr: ServiceCidr) {
        let version = |cidr: &ServiceCidr| cidr.metadata.resource_version.parse().unwrap_or(0_u64);
        let name = cidr.metadata.name.clone();
        if self
            .cidrs
            .get(&name)
            .is_some_and(|known| version(known) > version(&cidr))
        {
            return;
        }
        self.cidrs.insert(name.clone(), cidr);
        self.queue.add(name, now());
    }

    fn look_at_deleted(&mut self) {
        let deleted = self
            .cidrs
            .iter()
            .filter(|(_, cidr)| cidr.metadata.deletion_timestamp.is_some());
        for (name, _) in deleted {
            self.queue.add(name.clone(), now());
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < CONCURRENT_WRITES {
            let Some((name, _)) = self.queue.take(now()) else {
                return;
            };
            let Some(cidr) = self.cidrs.get(&name) else {
                self.queue.done(&name, now());
                continue;
            };
            let time = self.environment.clock.now();
            let outcome = reconcile(&Inputs {
                cidr,
                all: &self.cidrs.values().collect::<Vec<_>>(),
                addresses: &self.addresses,
                now: time,
            });
            let Some(step) = outcome.step else {
                if let Some(pause) = outcome.again_after {
                    self.queue.add_at(name.clone(), now() + pause);
                }
                self.queue.done(&name, now());
                continue;
            };
            let (environment, cidr) = (self.environment.clone(), cidr.clone());
            self.tasks.spawn(async move {
                let written = carry_out(&environment.client, &cidr, step, time).await;
                (name, written)
            });
        }
    }

    fn finish(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok((name, Ok(written))) => {
                if let Some(cidr) = written {
                    self.apply(cidr);
                }
                self.queue.done(&name, now());
            }
            Ok((name, Err(error))) => {
                let pause = self.queue.failed(&name, now());
                tracing::warn!(serviceCIDR = name, %error, ?pause, "will be tried again");
            }
            Err(error) => tracing::error!(%error, "a write on a ServiceCIDR failed"),
        }
    }
}
