//! Slices, answers and the time in; questions and writes out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use api::object::{EndpointConditions, EndpointSlice, ObjectKey};
use client::Event;
use probe::definition::Probe;
use probe::{Asked, ProbeKind, Probes, Probing};

use super::{MANAGED_BY, address_of, probe_of};
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::events::Finding;
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;
use crate::world::Graves;

#[cfg(test)]
mod tests;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Whether what a slice says is what was found.
    Slice(ObjectKey),
    /// Whether it is time to ask an endpoint of a slice, by its address.
    Endpoint(ObjectKey, Arc<str>),
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Job {
    /// An address is to be asked.
    Check { probe: Arc<Probe>, address: IpAddr },
    /// A slice is to have the endpoints that it has here.
    Write {
        slice: Box<EndpointSlice>,
        findings: Vec<Finding>,
    },
}

/// What came of it.
pub(super) enum Answer {
    /// Somebody was asked.
    Checked { asked: Asked, answered_at: Instant },
    /// The server has this now; nothing if the slice is gone.
    Written(Option<Box<EndpointSlice>>),
}

/// A slice, and what is found out about its endpoints.
struct Known {
    slice: EndpointSlice,
    /// By address; none if nothing is checked.
    tracks: BTreeMap<Arc<str>, Track>,
}

/// One endpoint by the clock.
struct Track {
    probe: Arc<Probe>,
    address: IpAddr,
    probing: Probing,
    begun: Instant,
    /// What the last answer said, for people.
    message: String,
}

/// The state of the controller.
#[derive(Default)]
pub(super) struct Backends {
    is_synced: bool,
    slices: BTreeMap<ObjectKey, Known>,
    graves: Graves,
}

impl Track {
    fn new(probe: Arc<Probe>, address: IpAddr, is_ready: bool, now: Instant) -> Self {
        let probing = Probing::new(Probes {
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
            begun: now,
            message: String::new(),
        }
    }
}

impl Backends {
    /// Takes in a slice from the watch or an answer, unless it is old news.
    fn apply(&mut self, slice: EndpointSlice, queue: &mut Queue<Subject>, now: Instant) {
        let version = |slice: &EndpointSlice| slice.metadata.resource_version.parse().unwrap_or(0_u64);
        let key = slice.metadata.key();
        let known = self.slices.get(&key);
        let is_old = known.is_some_and(|known| version(&known.slice) > version(&slice));
        if is_old || self.graves.hold(&slice.metadata.uid) {
            return;
        }
        if slice.metadata.labels.get(MANAGED_BY_LABEL).map(String::as_str) != Some(MANAGED_BY) {
            self.slices.remove(&key);
            return;
        }
        let before = self.slices.remove(&key).map(|known| known.tracks);
        let tracks = tracks(&slice, before.unwrap_or_default(), now);
        for address in tracks.keys() {
            queue.add(Subject::Endpoint(key.clone(), Arc::clone(address)), now);
        }
        queue.add(Subject::Slice(key.clone()), now);
        self.slices.insert(key, Known { slice, tracks });
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.slices.remove(key) {
            self.graves.bury(&known.slice.metadata.uid);
        }
    }

    fn track(&mut self, key: &ObjectKey, address: &str) -> Option<&mut Track> {
        self.slices.get_mut(key)?.tracks.get_mut(address)
    }
}

/// What is checked of a slice; what was found out before is kept as long as it is asked the same.
fn tracks(
    slice: &EndpointSlice,
    mut before: BTreeMap<Arc<str>, Track>,
    now: Instant,
) -> BTreeMap<Arc<str>, Track> {
    let probe = match probe_of(slice) {
        Ok(Some(probe)) => Arc::new(probe),
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            tracing::warn!(slice = %slice.metadata.key(), %error, "the backends of a slice are not checked");
            return BTreeMap::new();
        }
    };
    let mut tracks = BTreeMap::new();
    for endpoint in &slice.endpoints {
        let Some(address) = address_of(endpoint) else {
            continue;
        };
        let Ok(ip) = address.parse() else { continue };
        let track = match before.remove(address) {
            Some(track) if track.probe == probe => track,
            // Whatever it is asked from now on, it is as ready as it was.
            Some(track) => Track::new(Arc::clone(&probe), ip, track.probing.is_ready(), now),
            None => Track::new(
                Arc::clone(&probe),
                ip,
                endpoint.conditions.ready == Some(true),
                now,
            ),
        };
        tracks.insert(Arc::clone(address), track);
    }
    tracks
}

/// The slice as it should be, and what is new about it; nothing if it is so already.
fn outcome(known: &Known) -> Option<(EndpointSlice, Vec<Finding>)> {
    let mut slice = known.slice.clone();
    let mut findings = Vec::new();
    for endpoint in &mut slice.endpoints {
        let track = address_of(endpoint).and_then(|address| known.tracks.get(address));
        let Some(track) = track else { continue };
        let is_ready = track.probing.is_ready();
        if endpoint.conditions.ready != Some(is_ready) {
            findings.extend(finding(track, endpoint.conditions.ready, is_ready));
        }
        endpoint.conditions = EndpointConditions {
            ready: Some(is_ready),
            serving: Some(is_ready),
            terminating: Some(false),
        };
    }
    (slice != known.slice).then_some((slice, findings))
}

/// What people should know of a change. That a backend is not ready before it was asked is no news.
fn finding(track: &Track, before: Option<bool>, is_ready: bool) -> Option<Finding> {
    let address = track.address;
    if is_ready {
        return Some(Finding {
            is_warning: false,
            reason: "BackendReady",
            message: format!("Backend {address} answers its check"),
        });
    }
    (before == Some(true)).then(|| {
        let message = format!("Backend {address} failed its check: {}", track.message);
        Finding::warning("BackendNotReady", message)
    })
}

impl Keeper for Backends {
    type Change = Event<EndpointSlice>;
    type Key = Subject;
    type Job = Job;
    type Answer = Answer;
    /// Questions wait for answers most of the time, up to their timeouts.
    const JOBS_MAX: usize = 256;

    fn take(&mut self, change: Event<EndpointSlice>, queue: &mut Queue<Subject>, now: Instant) {
        match change {
            Event::Applied(slice) => self.apply(slice, queue, now),
            Event::Deleted(key) => self.forget(&key),
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => malformed::skip::<EndpointSlice>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn look(&mut self, subject: &Subject, now: Instant) -> Look<Job> {
        let (key, address) = match subject {
            Subject::Endpoint(key, address) => (key, address),
            Subject::Slice(key) => {
                return match self.slices.get(key).and_then(outcome) {
                    Some((slice, findings)) => Look::Do(Job::Write {
                        slice: Box::new(slice),
                        findings,
                    }),
                    None => Look::Fine,
                };
            }
        };
        let Some(track) = self.track(key, address) else {
            return Look::Fine;
        };
        let elapsed = now.saturating_duration_since(track.begun);
        if !track.probing.begin(elapsed).is_empty() {
            return Look::Do(Job::Check {
                probe: Arc::clone(&track.probe),
                address: track.address,
            });
        }
        match track.probing.next_due() {
            Some(due) => Look::Again(due.saturating_sub(elapsed)),
            None => Look::Fine,
        }
    }

    fn answered(&mut self, subject: &Subject, answer: Answer, queue: &mut Queue<Subject>, now: Instant) {
        match (subject, answer) {
            (_, Answer::Written(Some(slice))) => self.apply(*slice, queue, now),
            (Subject::Slice(key) | Subject::Endpoint(key, _), Answer::Written(None)) => self.forget(key),
            (Subject::Endpoint(key, address), Answer::Checked { asked, answered_at }) => {
                queue.add(subject.clone(), now);
                let Some(track) = self.track(key, address) else {
                    return;
                };
                track.message = asked.message;
                let elapsed = answered_at.saturating_duration_since(track.begun);
                if track
                    .probing
                    .count(ProbeKind::Readiness, asked.answer, elapsed)
                    .is_some()
                {
                    queue.add(Subject::Slice(key.clone()), now);
                }
            }
            (Subject::Slice(_), Answer::Checked { .. }) => {}
        }
    }
}
