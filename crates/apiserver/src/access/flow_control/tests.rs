use std::time::Duration;

use super::*;

fn user(name: &str, group: &str) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: vec![group.to_owned()],
        ..Identity::default()
    }
}

fn flow_control(limit: u32) -> Arc<FlowControl> {
    Arc::new(FlowControl::new(RequestLimits {
        concurrent_reads_max: limit,
        concurrent_writes_max: limit,
        per_user_per_second: 0,
        ..RequestLimits::default()
    }))
}

fn flow(flow_control: &FlowControl, name: &str, group: &str) -> Flow {
    flow_control.flow(&user(name, group), Subject::default())
}

/// Takes all seats for writes of the flow's level.
async fn fill(flow_control: &Arc<FlowControl>, flow: Flow) -> Vec<Seat> {
    let mut seats = Vec::new();
    while let Some(seat) = now_or_never(flow_control.acquire_seat(flow, RequestClass::Write)) {
        seats.push(seat.expect("seat"));
    }
    seats
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    futures_util::FutureExt::now_or_never(future)
}

#[tokio::test]
async fn full_level_does_not_block_other_levels() {
    let control = flow_control(245);
    let pods = flow(&control, "system:serviceaccount:a:b", "system:serviceaccounts");
    let seats = fill(&control, pods).await;
    assert_eq!(seats.len(), 100);
    for (name, group) in [
        ("admin", "system:masters"),
        ("system:node:a", "system:nodes"),
        ("system:kube-controller-manager", "system:authenticated"),
        ("ann", "system:authenticated"),
    ] {
        let other = flow(&control, name, group);
        assert!(
            now_or_never(control.acquire_seat(other, RequestClass::Write)).is_some(),
            "{name}"
        );
    }
    assert!(
        now_or_never(control.acquire_seat(pods, RequestClass::Read)).is_some(),
        "reads have separate seats"
    );
}

#[tokio::test]
async fn waiting_request_receives_the_released_seat() {
    let control = flow_control(1);
    let (ann, bob) = (
        flow(&control, "ann", "system:authenticated"),
        flow(&control, "bob", "system:authenticated"),
    );
    let mut seats = fill(&control, ann).await;
    let waiting = tokio::spawn({
        let control = control.clone();
        async move { control.acquire_seat(bob, RequestClass::Write).await.is_ok() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    seats.pop();
    assert!(waiting.await.expect("waiting task"));
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_seat_times_out() {
    let control = flow_control(1);
    let ann = flow(&control, "ann", "system:authenticated");
    let seats = fill(&control, ann).await;
    let started = tokio::time::Instant::now();
    let Err(rejection) = control.acquire_seat(ann, RequestClass::Write).await else {
        panic!("expected a timeout")
    };
    assert_eq!(rejection.code(), 429);
    assert_eq!(started.elapsed(), QUEUE_WAIT_MAX);
    drop(seats);
    assert!(now_or_never(control.acquire_seat(ann, RequestClass::Write)).is_some());
}

#[tokio::test]
async fn cancelled_request_releases_its_seat() {
    let control = flow_control(1);
    let ann = flow(&control, "ann", "system:authenticated");
    let mut seats = fill(&control, ann).await;
    let mut cancelled = Box::pin(control.acquire_seat(ann, RequestClass::Write));
    assert!(now_or_never(&mut cancelled).is_none());
    // The request receives the seat before it is cancelled.
    seats.pop();
    drop(cancelled);
    assert_eq!(fill(&control, ann).await.len(), 1);
}

#[test]
fn long_running_requests_are_limited_by_user() {
    let control = flow_control(1);
    let pod = flow(&control, "system:serviceaccount:a:b", "system:serviceaccounts");
    let held: Vec<_> = (0..400)
        .filter_map(|_| control.acquire_long_running(pod, LongRunning::Proxy).ok())
        .collect();
    assert_eq!(held.len(), 64);
    let other = flow(&control, "system:serviceaccount:a:c", "system:serviceaccounts");
    assert!(control.acquire_long_running(other, LongRunning::Proxy).is_ok());
    assert!(control.acquire_long_running(pod, LongRunning::Log).is_ok());
    drop(held);
    assert!(control.acquire_long_running(pod, LongRunning::Proxy).is_ok());
}

/// A selector of 64 KiB, such as `a,a,a`, takes megabytes of memory.
#[test]
fn watches_with_long_selectors_count_as_several() {
    let control = flow_control(1);
    let ann = flow(&control, "ann", "system:authenticated");
    let fill = |selector_bytes| -> Vec<_> {
        (0..2_000)
            .filter_map(|_| control.acquire_watch(ann, selector_bytes).ok())
            .collect()
    };
    assert_eq!(fill(200).len(), 1_000);
    assert_eq!(fill(60 << 10).len(), 4);
    let held = fill(60 << 10);
    assert_eq!(fill(0).len(), 36);
    drop(held);
    assert_eq!(fill(0).len(), 1_000);
}

#[test]
fn users_have_separate_rates() {
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
fn metrics_have_upstream_names() {
    let control = flow_control(245);
    control
        .counts
        .count_rejection(FlowSchema::ServiceAccounts, Rejection::QueueFull);
    let mut text = telemetry::MetricsText::default();
    control.write_metrics(&mut text);
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
fn tables_follow_the_order_of_variants() {
    assert!(
        PriorityLevel::ALL
            .iter()
            .enumerate()
            .all(|(index, key)| *key as usize == index)
    );
    assert!(
        FlowSchema::ALL
            .iter()
            .enumerate()
            .all(|(index, key)| *key as usize == index)
    );
    assert!(
        LongRunning::ALL
            .iter()
            .enumerate()
            .all(|(index, key)| *key as usize == index)
    );
}
