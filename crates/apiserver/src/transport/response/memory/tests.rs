use super::*;
use crate::access::authentication::Identity;
use crate::access::flow_control::{Flow, FlowControl, RequestLimits, Subject};

const MIB: usize = 1 << 20;

fn flows<const N: usize>(names: [(&str, &str); N]) -> [Flow; N] {
    let control = FlowControl::new(RequestLimits::default());
    names.map(|(user, group)| {
        let identity = Identity {
            user: user.to_owned(),
            groups: vec![group.to_owned()],
            ..Identity::default()
        };
        control.flow(&identity, Subject::default())
    })
}

/// Takes permits for responses of this size until one is refused, or 10,000 are held.
fn fill(memory: &Arc<ResponseMemory>, flow: Flow, bytes: usize, is_compressed: bool) -> Vec<ResponsePermit> {
    let held = std::iter::from_fn(|| {
        let mut permit = memory.begin(flow.user, flow.reserve_access()).ok()?;
        permit.reserve(bytes, is_compressed).ok().map(|()| permit)
    });
    held.take(10_000).collect()
}

#[test]
fn unread_responses_of_one_user_leave_memory_for_others() {
    let memory = Arc::new(ResponseMemory::new());
    let [pod, ann, node, admin] = flows([
        ("system:serviceaccount:a:b", "system:serviceaccounts"),
        ("ann", "system:authenticated"),
        ("system:node:a", "system:nodes"),
        ("admin", "system:masters"),
    ]);
    let held = fill(&memory, pod, MIB, false);
    assert_eq!(held.len(), 64);
    assert!(memory.begin(pod.user, pod.reserve_access()).is_err());
    for other in [ann, node, admin] {
        assert!(!fill(&memory, other, MIB, false).is_empty());
    }
    drop(held);
    assert_eq!(fill(&memory, pod, MIB, false).len(), 64);
}

#[test]
fn compression_counts_as_memory() {
    let memory = Arc::new(ResponseMemory::new());
    let [pod] = flows([("system:serviceaccount:a:b", "system:serviceaccounts")]);
    assert_eq!(fill(&memory, pod, MIB / 2, true).len(), 64);
}

#[test]
fn small_responses_count_as_their_requests() {
    let memory = Arc::new(ResponseMemory::new());
    let [ann] = flows([("ann", "system:authenticated")]);
    let held_max = usize::try_from(COMMON_KIB.per_holder / REQUEST_KIB).expect("a number of requests");
    let held: Vec<ResponsePermit> = (0..held_max)
        .filter_map(|_| memory.begin(ann.user, ann.reserve_access()).ok())
        .collect();
    assert_eq!(held.len(), held_max);
    assert!(memory.begin(ann.user, ann.reserve_access()).is_err());
}

#[test]
fn response_above_the_limit_passes_beside_small_ones() {
    let memory = Arc::new(ResponseMemory::new());
    let [ann, node] = flows([("ann", "system:authenticated"), ("system:node:a", "system:nodes")]);
    for flow in [ann, node] {
        let small = memory.begin(flow.user, flow.reserve_access());
        assert_eq!(fill(&memory, flow, 1_000 * MIB, false).len(), 1);
        drop(small);
        assert_eq!(fill(&memory, flow, 1_000 * MIB, false).len(), 2);
    }
}

#[test]
fn users_and_components_do_not_refuse_each_other() {
    let memory = Arc::new(ResponseMemory::new());
    let names: Vec<String> = (0..6).map(|number| format!("user-{number}")).collect();
    let mut held = Vec::new();
    let control = FlowControl::new(RequestLimits::default());
    for name in &names {
        let identity = Identity {
            user: name.clone(),
            ..Identity::default()
        };
        let flow = control.flow(&identity, Subject::default());
        held.extend(fill(&memory, flow, MIB, false));
    }
    assert_eq!(held.len(), 256);
    let [node, manager] = flows([
        ("system:node:a", "system:nodes"),
        ("system:kube-controller-manager", "system:authenticated"),
    ]);
    let of_node = fill(&memory, node, MIB, false);
    assert_eq!(of_node.len(), 256);
    let of_manager = fill(&memory, manager, MIB, false);
    assert_eq!(of_manager.len(), 256);
    drop(held);
    let [ann] = flows([("ann", "system:authenticated")]);
    assert_eq!(fill(&memory, ann, MIB, false).len(), 64);
}

#[test]
fn administrators_are_never_refused() {
    let memory = Arc::new(ResponseMemory::new());
    let [admin] = flows([("admin", "system:masters")]);
    assert_eq!(fill(&memory, admin, 100 * MIB, false).len(), 10_000);
}
