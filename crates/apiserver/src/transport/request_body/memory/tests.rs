use futures_util::FutureExt;

use super::*;
use crate::access::authentication::Identity;
use crate::access::flow_control::{FlowControl, RequestLimits, Subject};

fn flows(names: &[(&str, &str)]) -> Vec<Flow> {
    let control = FlowControl::new(RequestLimits::default());
    let flow = |(user, group): &(&str, &str)| {
        let identity = Identity {
            user: (*user).to_owned(),
            groups: vec![(*group).to_owned()],
            ..Identity::default()
        };
        control.flow(&identity, Subject::default())
    };
    names.iter().map(flow).collect()
}

const LARGEST: usize = 3 << 20;

#[tokio::test]
async fn large_bodies_of_one_user_leave_memory_for_others() {
    let memory = Arc::new(BodyMemory::new());
    let flows = flows(&[
        ("pod", "system:serviceaccounts"),
        ("ann", "system:authenticated"),
        ("system:node:a", "system:nodes"),
        ("admin", "system:masters"),
    ]);
    let mut held = Vec::new();
    for _ in 0..11 {
        held.extend(
            memory
                .reserve(flows[0], LARGEST)
                .now_or_never()
                .and_then(Result::ok),
        );
    }
    assert_eq!(held.len(), 1);
    for other in &flows[1..] {
        let reservation = memory.reserve(*other, LARGEST).now_or_never();
        assert!(reservation.is_some_and(|reservation| reservation.is_ok()));
    }
}

#[tokio::test]
async fn many_users_leave_the_reserve() {
    let memory = Arc::new(BodyMemory::new());
    let names: Vec<String> = (0..20).map(|number| format!("user-{number}")).collect();
    let mut users: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), "system:authenticated"))
        .collect();
    users.extend([("system:node:a", "system:nodes"), ("admin", "system:masters")]);
    let flows = flows(&users);
    let mut held = Vec::new();
    for user in &flows[..20] {
        held.extend(memory.reserve(*user, LARGEST).now_or_never().and_then(Result::ok));
    }
    assert_eq!(held.len(), 8);
    for other in &flows[20..] {
        let reservation = memory.reserve(*other, LARGEST).now_or_never();
        assert!(reservation.is_some_and(|reservation| reservation.is_ok()));
    }
}

#[tokio::test]
async fn waiting_request_gets_freed_memory() {
    let memory = Arc::new(BodyMemory::new());
    let pod = flows(&[("pod", "system:serviceaccounts")])[0];
    let first = memory.reserve(pod, LARGEST).await.expect("free memory");
    let waiting = tokio::spawn({
        let memory = memory.clone();
        async move { memory.reserve(pod, LARGEST).await.is_ok() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(first);
    assert!(waiting.await.expect("no panic"));
    assert_eq!(lock(&memory.kib).held(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_request_times_out() {
    let memory = Arc::new(BodyMemory::new());
    let pod = flows(&[("pod", "system:serviceaccounts")])[0];
    let _first = memory.reserve(pod, LARGEST).await.expect("free memory");
    let refused = memory.reserve(pod, LARGEST).await.expect_err("a refusal");
    assert_eq!(refused.code(), 429);
}

#[test]
fn limits_incomplete_bodies_of_each_user() {
    let memory = Arc::new(BodyMemory::new());
    let flows = flows(&[("pod", "system:serviceaccounts"), ("ann", "system:authenticated")]);
    let open: Vec<_> = (0..200).filter_map(|_| memory.open(flows[0]).ok()).collect();
    assert_eq!(open.len(), 64);
    assert!(memory.open(flows[1]).is_ok());
    drop(open);
    assert!(memory.open(flows[0]).is_ok());
}
