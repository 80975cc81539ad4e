//! The loop that keeps cluster IPs and node ports in agreement with the Services (CIDR-15, NP-11): what
//! [`crate::registry::service::repair`] finds wrong is counted, told in Events and mended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::object::Service;
use jiff::Timestamp;
use store::{EventKind, Revision, StoreError, Watch};
use tokio::time::Instant;

use crate::registry::event;
use crate::registry::service::repair::ports::Suspects;
use crate::registry::service::repair::{
    Audit, Books, Counts, Finding, Mend, SERVICES_PREFIX, addresses, ports, transactions,
};
use crate::registry::service::{IP_ADDRESSES_PREFIX, SERVICE_CIDRS_PREFIX};
use crate::verbs::resource::{Interruption, Resources};

/// How often everything is looked at, though nothing looks wrong.
const PERIOD: Duration = Duration::from_secs(180);
/// How long after something that looks wrong everything is looked at; so one look answers a burst.
const PAUSE: Duration = Duration::from_millis(500);
/// How long changes of IPAddresses are left alone before they are looked at: waking for each would be felt by whoever
/// creates the next Service.
const REST: Duration = Duration::from_millis(100);
/// How long after an IPAddress without a Service was made: then it has leaked, if there still is none.
const LEAK_PATIENCE: Duration = Duration::from_secs(61);

/// Who writes the Events, under upstream's names.
const ADDRESS_COMPONENT: &str = "ipallocator-repair-controller";
const PORT_COMPONENT: &str = "portallocator-repair-controller";

/// The state of the loop.
pub(crate) struct Repair {
    resources: Arc<Resources>,
    suspects: Suspects,
    /// What was found last, and so was told already. Bounded by what is wrong at present.
    told: BTreeSet<Finding>,
    /// Up to where all was found as it should be.
    clean_at: Option<Revision>,
}

impl Repair {
    pub(crate) fn new(resources: Arc<Resources>) -> Repair {
        Repair {
            resources,
            suspects: Suspects::default(),
            told: BTreeSet::new(),
            clean_at: None,
        }
    }

    /// Looks at everything, now and then and when something looks wrong, until the server ends.
    pub(crate) async fn keep(mut self) {
        let mut shutdown = self.resources.shutdown.clone();
        tokio::select! {
            () = shutdown.requested() => {}
            result = self.watch() => if let Err(error) = result {
                tracing::error!(%error, "cluster IPs and node ports are not looked after any more");
            }
        }
    }

    async fn watch(&mut self) -> Result<(), StoreError> {
        let resources = Arc::clone(&self.resources);
        let index = resources.store.index();
        let mut round_at = Instant::now() + PERIOD;
        loop {
            let revision = index.revision();
            let mut addresses = index.watch(IP_ADDRESSES_PREFIX, revision)?;
            let mut ranges = index.watch(SERVICE_CIDRS_PREFIX, revision)?;
            // What happened while nobody watched is looked at too.
            let mut look_at = Some(Instant::now());
            loop {
                let next = look_at.map_or(round_at, |look_at| look_at.min(round_at));
                let suspicion = tokio::select! {
                    seen = suspicious_address(&resources, &mut addresses) => seen.map(Some),
                    seen = ranges.next() => seen.map(|_| Some(PAUSE)),
                    () = tokio::time::sleep_until(next) => Ok(None),
                };
                match suspicion {
                    Ok(Some(pause)) => {
                        let at = Instant::now() + pause;
                        look_at = Some(look_at.map_or(at, |known| known.min(at)));
                    }
                    Ok(None) => {
                        let is_round = Instant::now() >= round_at;
                        if is_round {
                            round_at = Instant::now() + PERIOD;
                        }
                        look_at = None;
                        self.pass(is_round).await;
                    }
                    Err(StoreError::Lagged { .. }) => break,
                    Err(other) => return Err(other),
                }
            }
        }
    }

    /// Looks at everything once and mends what can be.
    pub(crate) async fn pass(&mut self, is_round: bool) {
        let revision = self.resources.store.index().revision();
        if self.clean_at == Some(revision) && !self.suspects.are_there() {
            return;
        }
        match self.audit(is_round).await {
            Ok((of_addresses, of_ports)) => {
                let is_clean = of_addresses == Audit::default() && of_ports == Audit::default();
                self.clean_at = is_clean.then_some(revision);
                self.settle(of_addresses, of_ports).await;
            }
            Err(error) => {
                let services = &self.resources.services;
                for counts in [&services.address_faults, &services.port_faults] {
                    counts.failed_passes.fetch_add(1, Ordering::Relaxed);
                }
                tracing::warn!(%error, "cluster IPs and node ports could not be looked at");
            }
        }
    }

    /// Reads the store and compares, beside the runtime: with many Services it takes a while.
    async fn audit(&mut self, is_round: bool) -> Result<(Audit, Audit), StoreError> {
        let resources = Arc::clone(&self.resources);
        let range = resources.services.node_port_range();
        let mut suspects = std::mem::take(&mut self.suspects);
        let work = tokio::task::spawn_blocking(move || {
            let audits = Books::read(resources.store.index()).map(|books| {
                let of_addresses = addresses::audit(&books, Timestamp::now());
                (
                    of_addresses,
                    ports::audit(&books, &range, &mut suspects, is_round),
                )
            });
            (audits, suspects)
        });
        match work.await {
            Ok((audits, suspects)) => {
                self.suspects = suspects;
                audits
            }
            Err(error) => Err(StoreError::Unavailable {
                reason: error.to_string(),
            }),
        }
    }

    async fn settle(&mut self, of_addresses: Audit, of_ports: Audit) {
        let resources = Arc::clone(&self.resources);
        let services = &resources.services;
        let mut found = BTreeSet::new();
        for (audit, counts, component) in [
            (&of_addresses, &services.address_faults, ADDRESS_COMPONENT),
            (&of_ports, &services.port_faults, PORT_COMPONENT),
        ] {
            for finding in &audit.findings {
                counts.add(finding.fault);
                if !self.told.contains(finding) {
                    tell(&resources, component, finding).await;
                }
                found.insert(finding.clone());
            }
            self.mend(&audit.mends, counts).await;
        }
        self.told = found;
    }

    async fn mend(&self, mends: &[Mend], counts: &Counts) {
        for mend in mends {
            let mut is_done = true;
            for transaction in transactions(mend, self.resources.store.index(), Timestamp::now()) {
                match self.resources.commit(transaction).await {
                    Ok(_) => {}
                    // It has changed since; the next look decides anew.
                    Err(Interruption::Overtaken) => is_done = false,
                    Err(Interruption::Failed(failure)) => {
                        counts.failed_passes.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(?mend, error = failure.message(), "a repair failed");
                        is_done = false;
                    }
                }
                if !is_done {
                    break;
                }
            }
            if is_done {
                self.resources.services.mended(mend);
            }
        }
    }
}

async fn tell(resources: &Resources, component: &str, finding: &Finding) {
    tracing::warn!(reason = finding.reason, "{}", finding.message);
    if let Some(regarding) = &finding.regarding {
        event::warn(resources, component, regarding, finding.reason, &finding.message).await;
    }
}

/// Waits for a change of an IPAddress that no allocation makes; returns how soon to look at everything.
async fn suspicious_address(resources: &Resources, watch: &mut Watch) -> Result<Duration, StoreError> {
    loop {
        let Some(event) = watch.try_next()? else {
            watch.ready().await?;
            tokio::time::sleep(REST).await;
            continue;
        };
        let Some(address) = event.key.strip_prefix(IP_ADDRESSES_PREFIX) else {
            continue;
        };
        let has_service = service_has(resources, &event.value, address);
        match event.kind {
            // With its Service, which is there by now.
            EventKind::Created if has_service => {}
            EventKind::Created => return Ok(LEAK_PATIENCE),
            // With its Service, which is gone by now, or has another address.
            EventKind::Deleted if !has_service => {}
            EventKind::Deleted | EventKind::Updated => return Ok(PAUSE),
        }
    }
}

/// Whether the Service that an IPAddress refers to has that address now.
fn service_has(resources: &Resources, ip_address: &[u8], address: &str) -> bool {
    let Ok(object) = serde_json::from_slice::<serde_json::Value>(ip_address) else {
        return false;
    };
    let reference = |field: &str| object["spec"]["parentRef"][field].as_str().unwrap_or_default();
    let key = format!(
        "{SERVICES_PREFIX}{}/{}",
        reference("namespace"),
        reference("name")
    );
    let entry = resources.store.index().get(&key);
    let service = entry.and_then(|entry| serde_json::from_slice::<Service>(&entry.value).ok());
    service.is_some_and(|service| service.spec.cluster_ips.iter().any(|ip| ip == address))
}
