use super::*;
use crate::multicluster::tests::server::ApiServer;

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
        "a restart is not a loss"
    );
    assert_eq!(reachability(seconds(10), none), Reachability::Lost);
}

#[tokio::test]
async fn only_a_successful_response_counts() {
    let server = ApiServer::new();
    assert_eq!(probe(&server.client()).await, Ok(()));
    for code in [401, 403, 404] {
        let fault = probe(&server.failing(code).client()).await.expect_err("a fault");
        assert!(fault.contains(&code.to_string()), "{fault}");
    }
}
