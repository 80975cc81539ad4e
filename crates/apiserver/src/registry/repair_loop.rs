//! The loop that keeps the allocation records of cluster IPs and node ports consistent with Services (CIDR-15,
//! NP-11). It counts findings of [`crate::registry::service::repair`], reports them as Events, and repairs them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::object::Service;
use jiff::Timestamp;
use store::{EventKind, Revision, StoreError, Watch};
use tokio::time::Instant;

use crate::registry::event;
use crate::registry::service::repair::ports::SuspectPorts;
use crate::registry::service::repair::{
    AllocationRecords, Audit, Counts, Finding, RepairAction, SERVICES_PREFIX, addresses, ports, transactions,
};
use crate::registry::service::{IP_ADDRESSES_PREFIX, SERVICE_CIDRS_PREFIX};
use crate::verbs::resource::{Resources, WriteError};

/// Interval of passes that run without a suspicious change.
const PERIOD: Duration = Duration::from_secs(180);
/// Delay between a suspicious change and the pass, so that one pass covers a burst.
const PASS_DELAY: Duration = Duration::from_millis(500);
/// Delay before changes of IPAddresses are read. Without the delay, the task would run at each creation of a Service.
const READ_DELAY: Duration = Duration::from_millis(100);
/// Delay between the creation of an IPAddress without a Service and the pass that releases it as leaked.
const LEAK_DELAY: Duration = Duration::from_secs(61);

/// Event sources, under upstream's names.
const ADDRESS_COMPONENT: &str = "ipallocator-repair-controller";
const PORT_COMPONENT: &str = "portallocator-repair-controller";

/// The state of the loop.
pub(crate) struct RepairLoop {
    resources: Arc<Resources>,
    suspects: SuspectPorts,
    /// Findings of the last pass, which were reported. Bounded by the current inconsistencies.
    reported: BTreeSet<Finding>,
    /// The revision of the last pass without findings.
    clean_at: Option<Revision>,
}

impl RepairLoop {
    pub(crate) fn new(resources: Arc<Resources>) -> RepairLoop {
        RepairLoop {
            resources,
            suspects: SuspectPorts::default(),
            reported: BTreeSet::new(),
            clean_at: None,
        }
    }

    /// Runs passes periodically and after suspicious changes, until shutdown.
    pub(crate) async fn run(mut self) {
        let mut shutdown = self.resources.shutdown.clone();
        tokio::select! {
            () = shutdown.requested() => {}
            result = self.watch() => if let Err(error) = result {
                tracing::error!(%error, "repair of cluster IPs and node ports stopped");
            }
        }
    }

    async fn watch(&mut self) -> Result<(), StoreError> {
        let resources = Arc::clone(&self.resources);
        let index = resources.store.index();
        let mut periodic_at = Instant::now() + PERIOD;
        loop {
            let revision = index.revision();
            let mut addresses = index.watch(IP_ADDRESSES_PREFIX, revision)?;
            let mut ranges = index.watch(SERVICE_CIDRS_PREFIX, revision)?;
            // The first pass covers changes that happened before the watches began.
            let mut next_at = Some(Instant::now());
            loop {
                let next = next_at.map_or(periodic_at, |next_at| next_at.min(periodic_at));
                let input = tokio::select! {
                    seen = suspicious_address(&resources, &mut addresses) => seen.map(Some),
                    seen = ranges.next() => seen.map(|_| Some(PASS_DELAY)),
                    () = tokio::time::sleep_until(next) => Ok(None),
                };
                match input {
                    Ok(Some(delay)) => {
                        let at = Instant::now() + delay;
                        next_at = Some(next_at.map_or(at, |known| known.min(at)));
                    }
                    Ok(None) => {
                        let is_periodic = Instant::now() >= periodic_at;
                        if is_periodic {
                            periodic_at = Instant::now() + PERIOD;
                        }
                        next_at = None;
                        self.pass(is_periodic).await;
                    }
                    Err(StoreError::Lagged { .. }) => break,
                    Err(other) => return Err(other),
                }
            }
        }
    }

    /// Compares the records with the Services once, and repairs them.
    pub(crate) async fn pass(&mut self, is_periodic: bool) {
        let revision = self.resources.store.index().revision();
        if self.clean_at == Some(revision) && !self.suspects.has_any() {
            return;
        }
        match self.audit(is_periodic).await {
            Ok((address_audit, port_audit)) => {
                let is_clean = address_audit == Audit::default() && port_audit == Audit::default();
                self.clean_at = is_clean.then_some(revision);
                self.process(address_audit, port_audit).await;
            }
            Err(error) => {
                let services = &self.resources.services;
                for counts in [&services.address_faults, &services.port_faults] {
                    counts.failed_passes.fetch_add(1, Ordering::Relaxed);
                }
                tracing::warn!(%error, "cluster IPs and node ports not audited");
            }
        }
    }

    /// Audits the store on a blocking thread, because the duration grows with the number of Services.
    async fn audit(&mut self, is_periodic: bool) -> Result<(Audit, Audit), StoreError> {
        let resources = Arc::clone(&self.resources);
        let range = resources.services.node_port_range();
        let mut suspects = std::mem::take(&mut self.suspects);
        let work = tokio::task::spawn_blocking(move || {
            let audits = AllocationRecords::read(resources.store.index()).map(|records| {
                let address_audit = addresses::audit(&records, Timestamp::now());
                (
                    address_audit,
                    ports::audit(&records, &range, &mut suspects, is_periodic),
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

    async fn process(&mut self, address_audit: Audit, port_audit: Audit) {
        let resources = Arc::clone(&self.resources);
        let services = &resources.services;
        let mut found = BTreeSet::new();
        for (audit, counts, component) in [
            (&address_audit, &services.address_faults, ADDRESS_COMPONENT),
            (&port_audit, &services.port_faults, PORT_COMPONENT),
        ] {
            for finding in &audit.findings {
                counts.add(finding.fault);
                if !self.reported.contains(finding) {
                    report(&resources, component, finding).await;
                }
                found.insert(finding.clone());
            }
            self.apply(&audit.repairs, counts).await;
        }
        self.reported = found;
    }

    async fn apply(&self, repairs: &[RepairAction], counts: &Counts) {
        for repair in repairs {
            let mut is_done = true;
            for transaction in transactions(repair, self.resources.store.index(), Timestamp::now()) {
                match self.resources.commit(transaction).await {
                    Ok(_) => {}
                    // The record changed; the next pass decides again.
                    Err(WriteError::Conflict) => is_done = false,
                    Err(WriteError::Failed(failure)) => {
                        counts.failed_passes.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(?repair, error = failure.message(), "repair failed");
                        is_done = false;
                    }
                }
                if !is_done {
                    break;
                }
            }
            if is_done {
                self.resources.services.apply_repair(repair);
            }
        }
    }
}

async fn report(resources: &Resources, component: &str, finding: &Finding) {
    tracing::warn!(reason = finding.reason, "{}", finding.message);
    if let Some(regarding) = &finding.regarding {
        event::warn(resources, component, regarding, finding.reason, &finding.message).await;
    }
}

/// Waits for a change of an IPAddress that no allocation made; returns the delay of the pass.
async fn suspicious_address(resources: &Resources, watch: &mut Watch) -> Result<Duration, StoreError> {
    loop {
        let Some(event) = watch.try_next()? else {
            watch.ready().await?;
            tokio::time::sleep(READ_DELAY).await;
            continue;
        };
        let Some(address) = event.key.strip_prefix(IP_ADDRESSES_PREFIX) else {
            continue;
        };
        let has_service = service_has(resources, &event.value, address);
        match event.kind {
            // Created with its Service in one transaction.
            EventKind::Created if has_service => {}
            EventKind::Created => return Ok(LEAK_DELAY),
            // Deleted with its Service, or after its Service received another address.
            EventKind::Deleted if !has_service => {}
            EventKind::Deleted | EventKind::Updated => return Ok(PASS_DELAY),
        }
    }
}

/// Returns true if the Service that an IPAddress references has that address.
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
