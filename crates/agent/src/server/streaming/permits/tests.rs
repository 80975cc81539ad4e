use super::*;

#[test]
fn pods_have_a_limit_and_get_permits_back() {
    let permits = SessionPermits::default();
    let mut held: Vec<_> = (0..PER_POD_MAX)
        .filter_map(|_| permits.acquire("shop/web"))
        .collect();
    assert_eq!(held.len(), PER_POD_MAX);
    assert!(permits.acquire("shop/web").is_none());
    assert!(permits.acquire("shop/db").is_some());
    held.pop();
    assert!(permits.acquire("shop/web").is_some());
}

#[test]
fn sessions_of_all_pods_stay_within_the_limit_of_the_node() {
    let permits = SessionPermits::default();
    let pods = TOTAL_MAX / PER_POD_MAX;
    let held: Vec<_> = (0..pods)
        .flat_map(|pod| (0..PER_POD_MAX).map(move |_| format!("shop/{pod}")))
        .filter_map(|pod| permits.acquire(&pod))
        .collect();
    assert_eq!(held.len(), TOTAL_MAX);
    assert!(permits.acquire("shop/other").is_none());
}
