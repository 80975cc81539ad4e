use std::time::Duration;

use super::*;

fn user(name: &str, group: &str) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: vec![group.to_owned()],
        ..Identity::default()
    }
}

fn flow_control(at_a_time: u32) -> Arc<FlowControl> {
    Arc::new(FlowControl::new(RequestLimits {
        reads_at_a_time: at_a_time,
        writes_at_a_time: at_a_time,
        per_user_per_second: 0,
        ..RequestLimits::default()
    }))
}

fn flow(flow_control: &FlowControl, name: &str, group: &str) -> Flow {
    flow_control.flow(&user(name, group), Subject::default())
}

/// Takes all seats for writes of a level: so many of one user.
async fn fill(flow_control: &Arc<FlowControl>, flow: Flow) -> Vec<Place> {
    let mut places = Vec::new();
    while let Some(place) = now_or_never(flow_control.enter(flow, Load::Write)) {
        places.push(place.expect("a seat"));
    }
    places
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    futures_util::FutureExt::now_or_never(future)
}

#[tokio::test]
async fn a_full_level_keeps_nobody_out_of_another() {
    let control = flow_control(245);
    let pods = flow(&control, "system:serviceaccount:a:b", "system:serviceaccounts");
    let places = fill(&control, pods).await;
    assert_eq!(places.len(), 100);
    for (name, group) in [
        ("admin", "system:masters"),
        ("system:node:a", "system:nodes"),
        ("system:kube-controller-manager", "system:authenticated"),
        ("ann", "system:authenticated"),
    ] {
        let other = flow(&control, name, group);
        assert!(
            now_or_never(control.enter(other, Load::Write)).is_some(),
            "{name}"
        );
    }
    assert!(
        now_or_never(control.enter(pods, Load::Read)).is_some(),
        "reads have seats of their own"
    );
}

#[tokio::test]
async fn a_waiting_request_gets_the_next_seat() {
    let control = flow_control(1);
    let (ann, bob) = (
        flow(&control, "ann", "system:authenticated"),
        flow(&control, "bob", "system:authenticated"),
    );
    let mut places = fill(&control, ann).await;
    let waiting = tokio::spawn({
        let control = control.clone();
        async move { control.enter(bob, Load::Write).await.is_ok() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    places.pop();
    assert!(waiting.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_ever() {
    let control = flow_control(1);
    let ann = flow(&control, "ann", "system:authenticated");
    let places = fill(&control, ann).await;
    let begun = tokio::time::Instant::now();
    let Err(refused) = control.enter(ann, Load::Write).await else {
        panic!("there is no seat")
    };
    assert_eq!(refused.code(), 429);
    assert_eq!(begun.elapsed(), QUEUE_WAIT_MAX);
    drop(places);
    assert!(now_or_never(control.enter(ann, Load::Write)).is_some());
}

#[tokio::test]
async fn a_request_that_is_gone_leaves_no_seat_taken() {
    let control = flow_control(1);
    let ann = flow(&control, "ann", "system:authenticated");
    let mut places = fill(&control, ann).await;
    let mut gone = Box::pin(control.enter(ann, Load::Write));
    assert!(now_or_never(&mut gone).is_none());
    // The seat is given to it before it goes.
    places.pop();
    drop(gone);
    assert_eq!(fill(&control, ann).await.len(), 1);
}

#[test]
fn long_running_requests_have_a_limit_for_each_user() {
    let control = flow_control(1);
    let pod = flow(&control, "system:serviceaccount:a:b", "system:serviceaccounts");
    let held: Vec<_> = (0..400)
        .filter_map(|_| control.hold(pod, LongRunning::Proxy).ok())
        .collect();
    assert_eq!(held.len(), 64);
    let other = flow(&control, "system:serviceaccount:a:c", "system:serviceaccounts");
    assert!(control.hold(other, LongRunning::Proxy).is_ok());
    assert!(control.hold(pod, LongRunning::Log).is_ok());
    drop(held);
    assert!(control.hold(pod, LongRunning::Proxy).is_ok());
}

#[test]
fn a_user_has_a_rate_of_their_own() {
    let control = FlowControl::new(RequestLimits {
        per_user_per_second: 10,
        ..RequestLimits::default()
    });
    let (ann, admin) = (
        flow(&control, "ann", "system:authenticated"),
        flow(&control, "admin", "system:masters"),
    );
    let begin = Instant::now();
    let count = |flow, now| (0..100).filter(|_| control.count(flow, now).is_ok()).count();
    assert_eq!((count(ann, begin), count(admin, begin)), (20, 100));
    assert_eq!(count(ann, begin + Duration::from_secs(1)), 10);
}

#[test]
fn metrics_have_upstreams_names() {
    let control = flow_control(245);
    control
        .counts
        .rejected(FlowSchema::ServiceAccounts, Rejection::QueueFull);
    let mut text = telemetry::MetricsText::default();
    control.render(&mut text);
    let text = text.finish();
    for line in [
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"workload-low\"} 200\n",
        "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"service-accounts\",priority_level=\"workload-low\",reason=\"queue-full\"} 1\n",
        "apiserver_flowcontrol_current_inqueue_requests{flow_schema=\"exempt\",priority_level=\"exempt\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn tables_are_in_the_order_of_their_keys() {
    assert!(
        PriorityLevel::ALL
            .iter()
            .enumerate()
            .all(|(at, key)| *key as usize == at)
    );
    assert!(
        FlowSchema::ALL
            .iter()
            .enumerate()
            .all(|(at, key)| *key as usize == at)
    );
    assert!(
        LongRunning::ALL
            .iter()
            .enumerate()
            .all(|(at, key)| *key as usize == at)
    );
}
