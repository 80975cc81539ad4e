//! State machine of the backend health controller. Inputs are slices, probe results and time; outputs are probes and
//! writes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use api::object::{EndpointConditions, EndpointSlice, ObjectKey};
use client::Event;
use probe::definition::Probe;
use probe::{ProbeKind, ProbeReport, ProbeResult, ProbeSchedule, Probes};
use reconcile::events::EventText;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::{MANAGED_BY, address_of, probe_of};
use crate::caches::Tombstones;
use crate::endpoint_slice::MANAGED_BY_LABEL;
use crate::malformed_object::log_malformed;

#[cfg(test)]
mod tests;

/// The subject of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Comparison of the conditions in a slice with the probe results.
    Slice(ObjectKey),
    /// Probe of one endpoint of a slice, by its address.
    Endpoint(ObjectKey, Arc<str>),
}

/// The job of a reconciliation.
#[derive(Debug)]
pub(super) enum Job {
    /// Probes an address.
    Check { probe: Arc<Probe>, address: IpAddr },
    /// Writes the endpoints of a slice.
    Write {
        slice: Box<EndpointSlice>,
        events: Vec<EventText>,
    },
}

/// The result of a job.
pub(super) enum JobOutput {
    /// The result of a probe.
    Probed {
        probed: ProbeReport,
        finished_at: Instant,
    },
    /// The slice after the write; `None` if it is deleted.
    Written(Option<Box<EndpointSlice>>),
}

/// A slice with the checks of its endpoints.
struct CachedSlice {
    slice: EndpointSlice,
    /// Checks by address; empty if the slice has no valid probe.
    checks: BTreeMap<Arc<str>, EndpointCheck>,
}

/// The check of one endpoint over time.
struct EndpointCheck {
    probe: Arc<Probe>,
    address: IpAddr,
    probing: ProbeSchedule,
    started: Instant,
    /// Message of the last probe, for Events.
    message: String,
    /// Failed probes in a row.
    failures: u32,
    /// True for an endpoint that was ready, whose changes have Events, and after the Event of the first failures.
    are_failures_reported: bool,
}

/// Probes the endpoints of slices and records their readiness.
#[derive(Default)]
pub(super) struct BackendHealthController {
    is_synced: bool,
    slices: BTreeMap<ObjectKey, CachedSlice>,
    tombstones: Tombstones,
}

impl EndpointCheck {
    fn new(probe: Arc<Probe>, address: IpAddr, is_ready: bool, now: Instant) -> Self {
        let probing = ProbeSchedule::new(Probes {
            readiness: Some(&probe),
            ..Probes::default()
        });
        Self {
            probing: if is_ready {
                probing.already_ready()
            } else {
                probing
            },
            probe,
            address,
            started: now,
            message: String::new(),
            failures: 0,
            are_failures_reported: is_ready,
        }
    }

    /// Counts a result for the report of the first failures.
    fn count(&mut self, result: ProbeResult) {
        self.failures = match result {
            ProbeResult::Success => 0,
            ProbeResult::Failure => self.failures.saturating_add(1),
            ProbeResult::Unknown => self.failures,
        };
    }

    /// Returns true if an endpoint that was never ready failed as often as an endpoint that becomes not ready.
    fn has_unreported_failures(&self) -> bool {
        !self.are_failures_reported && self.failures >= self.probe.failure_threshold.max(1)
    }
}

impl BackendHealthController {
    /// Applies a slice from the watch or a response, unless it is older than the cached one.
    fn apply(&mut self, slice: EndpointSlice, queue: &mut Queue<Subject>, now: Instant) {
        let version = |slice: &EndpointSlice| slice.metadata.resource_version.parse().unwrap_or(0_u64);
        let key = slice.metadata.key();
        let cached = self.slices.get(&key);
        let is_old = cached.is_some_and(|cached| version(&cached.slice) > version(&slice));
        if is_old || self.tombstones.contains(&slice.metadata.uid) {
            return;
        }
        if slice.metadata.labels.get(MANAGED_BY_LABEL).map(String::as_str) != Some(MANAGED_BY) {
            self.slices.remove(&key);
            return;
        }
        let before = self.slices.remove(&key).map(|cached| cached.checks);
        let checks = checks(&slice, before.unwrap_or_default(), now);
        for address in checks.keys() {
            queue.add(Subject::Endpoint(key.clone(), Arc::clone(address)), now);
        }
        queue.add(Subject::Slice(key.clone()), now);
        self.slices.insert(key, CachedSlice { slice, checks });
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some(cached) = self.slices.remove(key) {
            self.tombstones.insert(&cached.slice.metadata.uid);
        }
    }

    fn check(&mut self, key: &ObjectKey, address: &str) -> Option<&mut EndpointCheck> {
        self.slices.get_mut(key)?.checks.get_mut(address)
    }
}

/// Returns the checks of a slice. A check with an unchanged probe keeps its history.
fn checks(
    slice: &EndpointSlice,
    mut before: BTreeMap<Arc<str>, EndpointCheck>,
    now: Instant,
) -> BTreeMap<Arc<str>, EndpointCheck> {
    let probe = match probe_of(slice) {
        Ok(Some(probe)) => Arc::new(probe),
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            tracing::warn!(slice = %slice.metadata.key(), %error, "invalid probe; backends of the slice are not checked");
            return BTreeMap::new();
        }
    };
    let mut checks = BTreeMap::new();
    for endpoint in &slice.endpoints {
        let Some(address) = address_of(endpoint) else {
            continue;
        };
        let Ok(ip) = address.parse() else { continue };
        let check = match before.remove(address) {
            Some(check) if check.probe == probe => check,
            // A new probe starts with the readiness that the endpoint has.
            Some(check) => EndpointCheck::new(Arc::clone(&probe), ip, check.probing.is_ready(), now),
            None => EndpointCheck::new(
                Arc::clone(&probe),
                ip,
                endpoint.conditions.ready == Some(true),
                now,
            ),
        };
        checks.insert(Arc::clone(address), check);
    }
    checks
}

/// Returns the slice with current conditions and the Events; `None` if its conditions are current and nothing is to be
/// reported.
fn pending_update(cached: &CachedSlice) -> Option<(EndpointSlice, Vec<EventText>)> {
    let mut slice = cached.slice.clone();
    let mut events = Vec::new();
    for endpoint in &mut slice.endpoints {
        let check = address_of(endpoint).and_then(|address| cached.checks.get(address));
        let Some(check) = check else { continue };
        let is_ready = check.probing.is_ready();
        let has_changed = endpoint.conditions.ready != Some(is_ready);
        let change = has_changed.then(|| event(check, endpoint.conditions.ready, is_ready));
        let failures = || check.has_unreported_failures().then(|| failure_event(check));
        events.extend(change.flatten().or_else(failures));
        endpoint.conditions = EndpointConditions {
            ready: Some(is_ready),
            serving: Some(is_ready),
            terminating: Some(false),
        };
    }
    (slice != cached.slice || !events.is_empty()).then_some((slice, events))
}

/// Returns the update of a slice as [`pending_update`], and marks the failures that its Events report.
fn start_update(cached: &mut CachedSlice) -> Option<(EndpointSlice, Vec<EventText>)> {
    let update = pending_update(cached)?;
    for check in cached.checks.values_mut() {
        check.are_failures_reported |= check.probing.is_ready() || check.has_unreported_failures();
    }
    Some(update)
}

/// Returns the Event for a change of readiness. A new endpoint that is not ready is not a change.
fn event(check: &EndpointCheck, before: Option<bool>, is_ready: bool) -> Option<EventText> {
    let address = check.address;
    if is_ready {
        return Some(EventText {
            is_warning: false,
            reason: "BackendReady",
            message: format!("Backend {address} answers its check"),
        });
    }
    (before == Some(true)).then(|| failure_event(check))
}

fn failure_event(check: &EndpointCheck) -> EventText {
    let message = format!("Backend {} failed its check: {}", check.address, check.message);
    EventText::warning("BackendNotReady", message)
}

impl Reconciler for BackendHealthController {
    type Change = Event<EndpointSlice>;
    type Key = Subject;
    type Job = Job;
    type Output = JobOutput;
    /// Probes spend most of their time waiting for a response or a timeout.
    const CONCURRENT_JOBS_MAX: usize = 256;
    /// Maximum number of concurrent jobs of a namespace. Addresses that do not answer make the probes of a namespace as
    /// slow as their timeouts.
    const TENANT_JOBS_MAX: usize = Self::CONCURRENT_JOBS_MAX / 2;

    fn tenant(subject: &Subject) -> &str {
        let (Subject::Slice(slice) | Subject::Endpoint(slice, _)) = subject;
        &slice.namespace
    }

    fn apply_change(&mut self, change: Event<EndpointSlice>, queue: &mut Queue<Subject>, now: Instant) {
        match change {
            Event::Applied(slice) => self.apply(slice, queue, now),
            Event::Deleted(key) => self.remove(&key),
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => log_malformed::<EndpointSlice>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn reconcile(&mut self, subject: &Subject, now: Instant) -> Action<Job> {
        let (key, address) = match subject {
            Subject::Endpoint(key, address) => (key, address),
            Subject::Slice(key) => {
                return match self.slices.get_mut(key).and_then(start_update) {
                    Some((slice, events)) => Action::Run(Job::Write {
                        slice: Box::new(slice),
                        events,
                    }),
                    None => Action::Done,
                };
            }
        };
        let Some(check) = self.check(key, address) else {
            return Action::Done;
        };
        let elapsed = now.saturating_duration_since(check.started);
        if !check.probing.begin(elapsed).is_empty() {
            return Action::Run(Job::Check {
                probe: Arc::clone(&check.probe),
                address: check.address,
            });
        }
        match check.probing.next_due() {
            Some(due) => Action::RequeueAfter(due.saturating_sub(elapsed)),
            None => Action::Done,
        }
    }

    fn on_failure(&mut self, subject: &Subject) {
        let Subject::Slice(key) = subject else { return };
        let checks = self.slices.get_mut(key).map(|cached| &mut cached.checks);
        for check in checks.into_iter().flat_map(BTreeMap::values_mut) {
            check.are_failures_reported &= check.probing.is_ready() || check.failures == 0;
        }
    }

    fn on_success(&mut self, subject: &Subject, output: JobOutput, queue: &mut Queue<Subject>, now: Instant) {
        match (subject, output) {
            (_, JobOutput::Written(Some(slice))) => self.apply(*slice, queue, now),
            (Subject::Slice(key) | Subject::Endpoint(key, _), JobOutput::Written(None)) => self.remove(key),
            (Subject::Endpoint(key, address), JobOutput::Probed { probed, finished_at }) => {
                queue.add(subject.clone(), now);
                let Some(check) = self.check(key, address) else {
                    return;
                };
                check.message = probed.message;
                check.count(probed.result);
                let elapsed = finished_at.saturating_duration_since(check.started);
                let effect = check.probing.count(ProbeKind::Readiness, probed.result, elapsed);
                if effect.is_some() || check.has_unreported_failures() {
                    queue.add(Subject::Slice(key.clone()), now);
                }
            }
            (Subject::Slice(_), JobOutput::Probed { .. }) => {}
        }
    }
}
