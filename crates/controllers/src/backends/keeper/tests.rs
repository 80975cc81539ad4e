use std::time::Duration;

use probe::Answer as Verdict;
use serde_json::json;

use super::super::PROBE_ANNOTATION;
use super::*;
use crate::queue::BackOff;

/// A slice of two addresses that is checked every ten seconds.
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

struct World {
    backends: Backends,
    queue: Queue<Subject>,
    begun: Instant,
}

impl World {
    fn new(first: EndpointSlice) -> Self {
        let begun = Instant::now();
        let mut this = Self {
            backends: Backends::default(),
            queue: Queue::new(BackOff {
                first: Duration::from_millis(5),
                max: Duration::from_secs(1),
            }),
            begun,
        };
        this.backends.take(Event::Applied(first), &mut this.queue, begun);
        this.backends.take(Event::Synced, &mut this.queue, begun);
        this
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begun + Duration::from_secs(seconds)
    }

    /// Does all that is due, with `answer` for each address; what was written.
    fn work(&mut self, seconds: u64, answer: impl Fn(&str) -> Verdict) -> Vec<(EndpointSlice, Vec<Finding>)> {
        let now = self.at(seconds);
        let mut written = Vec::new();
        self.queue.wake(now);
        while let Some((subject, _)) = self.queue.take(now) {
            match self.backends.look(&subject, now) {
                Look::Fine => {}
                Look::Again(pause) => self.queue.add_at(subject.clone(), now + pause),
                Look::Do(Job::Check { address, .. }) => {
                    let asked = Asked::new(answer(&address.to_string()), "because");
                    let answer = Answer::Checked {
                        asked,
                        answered_at: now,
                    };
                    self.backends.answered(&subject, answer, &mut self.queue, now);
                }
                Look::Do(Job::Write { mut slice, findings }) => {
                    let version: u64 = slice.metadata.resource_version.parse().unwrap();
                    slice.metadata.resource_version = (version + 1).to_string();
                    written.push((*slice.clone(), findings));
                    let answer = Answer::Written(Some(slice));
                    self.backends.answered(&subject, answer, &mut self.queue, now);
                }
            }
            self.queue.done(&subject, now);
        }
        written
    }
}

fn ready(slice: &EndpointSlice) -> Vec<Option<bool>> {
    slice.endpoints.iter().map(|e| e.conditions.ready).collect()
}

#[test]
fn an_address_takes_traffic_once_it_answers_and_as_long_as_it_does() {
    let mut world = World::new(slice(1, Some(false)));
    let only_first = |address: &str| match address {
        "10.0.0.1" => Verdict::Success,
        _ => Verdict::Failure,
    };
    let written = world.work(0, only_first);
    let (last, findings) = written.last().expect("a write");
    assert_eq!(ready(last), [Some(true), Some(false)]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].reason, "BackendReady");
    // Nothing has changed, and nothing is written.
    assert!(world.work(10, only_first).is_empty());
    // One failure is below the threshold.
    assert!(world.work(20, |_| Verdict::Failure).is_empty());
    let written = world.work(30, |_| Verdict::Failure);
    let (last, findings) = written.last().expect("a write");
    assert_eq!(ready(last), [Some(false), Some(false)]);
    assert_eq!(findings[0].message, "Backend 10.0.0.1 failed its check: because");
}

#[test]
fn a_controller_that_starts_leaves_ready_what_was_ready() {
    let mut world = World::new(slice(1, Some(true)));
    let written = world.work(0, |_| Verdict::Failure);
    // Only the conditions that were missing.
    assert!(written.iter().all(|(slice, _)| ready(slice) == [Some(true); 2]));
    let written = world.work(10, |_| Verdict::Failure);
    assert_eq!(ready(&written.last().expect("a write").0), [Some(false); 2]);
}

#[test]
fn what_somebody_else_says_is_put_right() {
    let mut world = World::new(slice(1, Some(false)));
    let written = world.work(0, |_| Verdict::Success);
    let mut foreign = written.last().expect("a write").0.clone();
    foreign.metadata.resource_version = "9".into();
    foreign.endpoints[1].conditions.ready = Some(false);
    let now = world.at(1);
    world
        .backends
        .take(Event::Applied(foreign), &mut world.queue, now);
    let written = world.work(1, |_| panic!("it is not time to ask"));
    assert_eq!(ready(&written.last().expect("a write").0), [Some(true); 2]);
}

#[test]
fn slices_of_others_and_without_a_probe_are_left_alone() {
    for change in [
        |slice: &mut EndpointSlice| drop(slice.metadata.labels.remove(MANAGED_BY_LABEL)),
        |slice: &mut EndpointSlice| drop(slice.metadata.annotations.remove(PROBE_ANNOTATION)),
        |slice: &mut EndpointSlice| {
            let exec = json!({"exec": {"command": ["true"]}}).to_string();
            slice.metadata.annotations.insert(PROBE_ANNOTATION.into(), exec);
        },
    ] {
        let mut slice = slice(1, None);
        change(&mut slice);
        let mut world = World::new(slice);
        assert!(world.work(0, |_| panic!("nobody is to be asked")).is_empty());
    }
}

#[test]
fn an_address_that_is_taken_out_is_not_asked_any_more() {
    let mut world = World::new(slice(1, Some(false)));
    world.work(0, |_| Verdict::Success);
    let mut fewer = slice(9, Some(true));
    fewer.endpoints.pop();
    let now = world.at(1);
    world.backends.take(Event::Applied(fewer), &mut world.queue, now);
    world.work(20, |address| {
        assert_eq!(address, "10.0.0.1");
        Verdict::Success
    });
    let now = world.at(21);
    let key = ObjectKey::new("n", "db-a");
    world.backends.take(Event::Deleted(key), &mut world.queue, now);
    assert!(world.work(40, |_| panic!("it is gone")).is_empty());
}
