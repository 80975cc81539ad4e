use super::*;

#[test]
fn cluster_is_lost_after_the_grace_period() {
    let grace = Duration::from_secs(60);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(reachability(None, grace), Reachability::Reachable);
    assert_eq!(reachability(seconds(9), grace), Reachability::Reachable);
    assert_eq!(reachability(seconds(10), grace), Reachability::Unreachable);
    assert_eq!(reachability(seconds(60), grace), Reachability::Lost);
    let none = Duration::ZERO;
    assert_eq!(
        reachability(seconds(1), none),
        Reachability::Reachable,
        "a restart is no loss"
    );
    assert_eq!(reachability(seconds(10), none), Reachability::Lost);
}
