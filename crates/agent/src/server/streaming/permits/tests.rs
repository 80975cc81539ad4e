use super::*;

#[test]
fn pods_have_a_limit_and_get_permits_back() {
    let permits = SessionPermits::new();
    let mut held: Vec<_> = (0..PER_POD_MAX)
        .filter_map(|_| permits.acquire("shop", "web"))
        .collect();
    assert_eq!(held.len(), PER_POD_MAX);
    assert!(permits.acquire("shop", "web").is_none());
    assert!(permits.acquire("shop", "db").is_some());
    held.pop();
    assert!(permits.acquire("shop", "web").is_some());
}

#[test]
fn pods_of_a_namespace_leave_sessions_to_others() {
    let permits = SessionPermits::new();
    let pods = TOTAL_MAX / PER_POD_MAX;
    let held: Vec<_> = (0..pods)
        .flat_map(|pod| (0..PER_POD_MAX).map(move |_| pod.to_string()))
        .filter_map(|pod| permits.acquire("shop", &pod))
        .collect();
    assert_eq!(held.len(), TOTAL_MAX / 2);
    assert!(permits.acquire("bank", "web").is_some());
    drop(held);
    assert!(permits.issued.lock().expect("the counts").is_empty());
}
