use std::time::Duration;

use probe::ProbeResult;
use reconcile::queue::BackOff;
use serde_json::json;

use super::super::PROBE_ANNOTATION;
use super::*;

/// Returns a slice of two addresses with a probe every ten seconds.
fn slice(version: u64, ready: Option<bool>) -> EndpointSlice {
    let probe = json!({"tcpSocket": {"port": 5432}, "periodSeconds": 10, "failureThreshold": 2});
    let conditions = ready.map_or(json!({}), |ready| json!({"ready": ready}));
    serde_json::from_value(json!({
        "metadata": {"name": "db-a", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {MANAGED_BY_LABEL: MANAGED_BY}, "annotations": {PROBE_ANNOTATION: probe.to_string()}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": conditions},
                      {"addresses": ["10.0.0.2"], "conditions": conditions}],
    }))
    .unwrap()
}

struct Caches {
    backends: BackendHealthController,
    queue: Queue<Subject>,
    started: Instant,
}

impl Caches {
    fn new(first: EndpointSlice) -> Self {
        let started = Instant::now();
        let mut this = Self {
            backends: BackendHealthController::default(),
            queue: Queue::new(BackOff {
                first: Duration::from_millis(5),
                max: Duration::from_secs(1),
            }),
            started,
        };
        this.backends
            .apply_change(Event::Applied(first), &mut this.queue, started);
        this.backends
            .apply_change(Event::Synced, &mut this.queue, started);
        this
    }

    fn at(&self, seconds: u64) -> Instant {
        self.started + Duration::from_secs(seconds)
    }

    /// Runs all due jobs, with `result_of` as the probe result of each address; returns the writes.
    fn work(
        &mut self,
        seconds: u64,
        result_of: impl Fn(&str) -> ProbeResult,
    ) -> Vec<(EndpointSlice, Vec<EventText>)> {
        let now = self.at(seconds);
        let mut written = Vec::new();
        self.queue.wake(now);
        while let Some((subject, _)) = self.queue.take(now) {
            match self.backends.reconcile(&subject, now) {
                Action::Done => {}
                Action::RequeueAfter(pause) => self.queue.add_at(subject.clone(), now + pause),
                Action::Run(Job::Check { address, .. }) => {
                    let probed = ProbeReport::new(result_of(&address.to_string()), "because");
                    let output = JobOutput::Probed {
                        probed,
                        finished_at: now,
                    };
                    self.backends.on_success(&subject, output, &mut self.queue, now);
                }
                Action::Run(Job::Write { mut slice, events }) => {
                    let version: u64 = slice.metadata.resource_version.parse().unwrap();
                    slice.metadata.resource_version = (version + 1).to_string();
                    written.push((*slice.clone(), events));
                    let output = JobOutput::Written(Some(slice));
                    self.backends.on_success(&subject, output, &mut self.queue, now);
                }
            }
            self.queue.done(&subject, now);
        }
        written
    }
}

fn ready(slice: &EndpointSlice) -> Vec<Option<bool>> {
    slice
        .endpoints
        .iter()
        .map(|endpoint| endpoint.conditions.ready)
        .collect()
}

#[test]
fn readiness_follows_the_probe_results() {
    let mut world = Caches::new(slice(1, Some(false)));
    let only_first = |address: &str| match address {
        "10.0.0.1" => ProbeResult::Success,
        _ => ProbeResult::Failure,
    };
    let written = world.work(0, only_first);
    let (last, events) = written.last().expect("a write");
    assert_eq!(ready(last), [Some(true), Some(false)]);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].reason, "BackendReady");
    // The endpoint that was never ready reaches its threshold. No condition changes.
    let written = world.work(10, only_first);
    let (last, events) = written.last().expect("a report");
    assert_eq!((ready(last), written.len()), (vec![Some(true), Some(false)], 1));
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].message, "Backend 10.0.0.2 failed its check: because");
    // Nothing changes, so nothing is written.
    assert!(world.work(15, only_first).is_empty());
    // One failure is below the threshold.
    assert!(world.work(20, |_| ProbeResult::Failure).is_empty());
    let written = world.work(30, |_| ProbeResult::Failure);
    let (last, events) = written.last().expect("a write");
    assert_eq!(ready(last), [Some(false), Some(false)]);
    assert_eq!(events[0].message, "Backend 10.0.0.1 failed its check: because");
}

#[test]
fn ready_endpoints_stay_ready_after_a_restart() {
    let mut world = Caches::new(slice(1, Some(true)));
    let written = world.work(0, |_| ProbeResult::Failure);
    // Only missing conditions are added.
    assert!(written.iter().all(|(slice, _)| ready(slice) == [Some(true); 2]));
    let written = world.work(10, |_| ProbeResult::Failure);
    assert_eq!(ready(&written.last().expect("a write").0), [Some(false); 2]);
}

#[test]
fn failures_are_reported_again_after_a_failed_write() {
    let mut world = Caches::new(slice(1, Some(false)));
    world.work(0, |_| ProbeResult::Failure);
    let key = Subject::Slice(ObjectKey::new("n", "db-a"));
    let written = world.work(10, |_| ProbeResult::Failure);
    let reports = |written: &[(EndpointSlice, Vec<EventText>)]| {
        written.iter().map(|write| write.1.len()).sum::<usize>()
    };
    assert_eq!(reports(&written), 2);
    world.backends.on_failure(&key);
    let now = world.at(11);
    world.queue.add(key, now);
    assert_eq!(
        reports(&world.work(11, |_| panic!("the next probe is not due"))),
        2
    );
}

#[test]
fn foreign_changes_of_conditions_are_reverted() {
    let mut world = Caches::new(slice(1, Some(false)));
    let written = world.work(0, |_| ProbeResult::Success);
    let mut foreign = written.last().expect("a write").0.clone();
    foreign.metadata.resource_version = "9".into();
    foreign.endpoints[1].conditions.ready = Some(false);
    let now = world.at(1);
    world
        .backends
        .apply_change(Event::Applied(foreign), &mut world.queue, now);
    let written = world.work(1, |_| panic!("the next probe is not due"));
    assert_eq!(ready(&written.last().expect("a write").0), [Some(true); 2]);
}

#[test]
fn foreign_slices_and_slices_without_a_probe_are_ignored() {
    for change in [
        |slice: &mut EndpointSlice| drop(slice.metadata.labels.remove(MANAGED_BY_LABEL)),
        |slice: &mut EndpointSlice| drop(slice.metadata.annotations.remove(PROBE_ANNOTATION)),
        |slice: &mut EndpointSlice| {
            let exec = json!({"exec": {"command": ["true"]}}).to_string();
            slice.metadata.annotations.insert(PROBE_ANNOTATION.into(), exec);
        },
        |slice: &mut EndpointSlice| {
            let host = json!({"tcpSocket": {"port": 22, "host": "127.0.0.1"}}).to_string();
            slice.metadata.annotations.insert(PROBE_ANNOTATION.into(), host);
        },
        |slice: &mut EndpointSlice| {
            let host = json!({"httpGet": {"port": 80, "host": "localhost"}}).to_string();
            slice.metadata.annotations.insert(PROBE_ANNOTATION.into(), host);
        },
    ] {
        let mut slice = slice(1, None);
        change(&mut slice);
        let mut world = Caches::new(slice);
        assert!(world.work(0, |_| panic!("no backend is to be probed")).is_empty());
    }
}

#[test]
fn timeouts_of_probes_are_bounded() {
    let mut slice = slice(1, None);
    let probe = json!({"tcpSocket": {"port": 1}, "timeoutSeconds": 4_000_000_000_u32}).to_string();
    slice.metadata.annotations.insert(PROBE_ANNOTATION.into(), probe);
    let probe = probe_of(&slice).unwrap().unwrap();
    assert_eq!(probe.timeout_seconds, 60);
}

#[test]
fn removed_addresses_are_not_probed() {
    let mut world = Caches::new(slice(1, Some(false)));
    world.work(0, |_| ProbeResult::Success);
    let mut fewer = slice(9, Some(true));
    fewer.endpoints.pop();
    let now = world.at(1);
    world
        .backends
        .apply_change(Event::Applied(fewer), &mut world.queue, now);
    world.work(20, |address| {
        assert_eq!(address, "10.0.0.1");
        ProbeResult::Success
    });
    let now = world.at(21);
    let key = ObjectKey::new("n", "db-a");
    world
        .backends
        .apply_change(Event::Deleted(key), &mut world.queue, now);
    assert!(world.work(40, |_| panic!("the backend was removed")).is_empty());
}
