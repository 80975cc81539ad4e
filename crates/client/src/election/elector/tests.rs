use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::{Elector, LeaseRequest, LeaseResponse};
use crate::WallClock;
use crate::election::Settings;
use crate::fence::Moment;

fn settings(identity: &str) -> Settings {
    Settings {
        identity: identity.to_owned(),
        namespace: "kube-system".to_owned(),
        name: "lock".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// A moment on a clock that shows 1970, whatever the other candidates' clocks show.
fn now() -> Moment {
    Moment::now(&WallClock::of(|| Timestamp::UNIX_EPOCH))
}

async fn advance_seconds(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Lets a candidate try once, at a server that holds a lease or none and accepts every write.
fn attempt(elector: &mut Elector, server: &mut Option<serde_json::Value>) {
    let mut next = Some(elector.next_request(&now(), Timestamp::UNIX_EPOCH));
    while let Some(request) = next {
        let response = match &request {
            LeaseRequest::Read => server
                .clone()
                .map_or(LeaseResponse::Missing, LeaseResponse::Lease),
            LeaseRequest::Create(lease) | LeaseRequest::Replace(lease) => {
                *server = Some(lease.clone());
                LeaseResponse::Lease(lease.clone())
            }
        };
        next = elector.process_response(&request, now(), response, &now(), Timestamp::UNIX_EPOCH);
    }
}

#[tokio::test(start_paused = true)]
async fn first_candidate_stays_leader_while_it_renews() {
    let (mut a, mut b) = (Elector::new(settings("a")), Elector::new(settings("b")));
    let mut lease = None;
    for round in 0..10 {
        attempt(&mut a, &mut lease);
        let spec = lease.as_mut().expect("a lease");
        // Every renewal has a time of its own.
        spec["spec"]["renewTime"] = round.into();
        attempt(&mut b, &mut lease);
        assert!(a.leading_since(&now()).is_some());
        assert!(b.leading_since(&now()).is_none());
        advance_seconds(8).await;
    }
    let lease = lease.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    assert_eq!(lease["spec"]["holderIdentity"], "a");
    assert_eq!(b.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn leader_without_renewal_stops_before_successor_starts() {
    let (mut a, mut b) = (Elector::new(settings("a")), Elector::new(settings("b")));
    let mut lease = None;
    attempt(&mut a, &mut lease);
    attempt(&mut b, &mut lease);
    advance_seconds(10).await;
    assert!(a.leading_since(&now()).is_none(), "the renew deadline is over");
    attempt(&mut b, &mut lease);
    assert!(
        b.leading_since(&now()).is_none(),
        "the lease is respected for its duration"
    );
    advance_seconds(5).await;
    attempt(&mut b, &mut lease);
    assert!(b.leading_since(&now()).is_some());
    assert_eq!(lease.as_ref().expect("a lease")["spec"]["leaseTransitions"], 1);
    attempt(&mut a, &mut lease);
    assert!(a.leading_since(&now()).is_none());
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_followed_by_a_read() {
    let mut a = Elector::new(settings("a"));
    let mut lease = None;
    attempt(&mut a, &mut lease);
    let renewal = a.next_request(&now(), Timestamp::UNIX_EPOCH);
    assert!(matches!(renewal, LeaseRequest::Replace(_)));
    assert_eq!(
        a.process_response(
            &renewal,
            now(),
            LeaseResponse::Failed,
            &now(),
            Timestamp::UNIX_EPOCH
        ),
        None
    );
    assert_eq!(a.next_request(&now(), Timestamp::UNIX_EPOCH), LeaseRequest::Read);
    let other = json!({"metadata": {"resourceVersion": "9"},
                       "spec": {"holderIdentity": "b", "leaseDurationSeconds": 15}});
    assert_eq!(
        a.process_response(
            &LeaseRequest::Read,
            now(),
            LeaseResponse::Lease(other),
            &now(),
            Timestamp::UNIX_EPOCH
        ),
        None
    );
    assert!(a.leading_since(&now()).is_none());
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_free_and_keeps_foreign_fields() {
    let (mut a, mut b) = (Elector::new(settings("a")), Elector::new(settings("b")));
    let mut lease = Some(json!({"metadata": {"labels": {"x": "y"}, "resourceVersion": "7"}, "spec": {}}));
    attempt(&mut a, &mut lease);
    let Some(LeaseRequest::Replace(resigned)) = a.resignation(&now(), Timestamp::UNIX_EPOCH) else {
        panic!("a led");
    };
    assert_eq!(resigned["spec"]["holderIdentity"], "");
    assert_eq!(resigned["metadata"]["labels"]["x"], "y");
    lease = Some(resigned);
    assert!(a.leading_since(&now()).is_none());
    attempt(&mut b, &mut lease);
    assert!(b.leading_since(&now()).is_some());
    let lease = lease.expect("a lease");
    assert_eq!(lease["metadata"]["resourceVersion"], "7");
    assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
}
