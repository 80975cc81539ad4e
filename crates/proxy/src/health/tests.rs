use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

#[test]
fn unhealthy_when_a_change_waits_too_long() {
    let health = Health::default();
    assert!(health.is_healthy(at(0)), "healthy while it starts");
    health.queued(at(10));
    health.queued(at(50));
    assert!(health.is_healthy(at(69)));
    assert!(!health.is_healthy(at(70)), "the oldest counts");
    assert_eq!(health.healthz(at(70)).status, StatusCode::SERVICE_UNAVAILABLE);
    health.updated(at(71));
    assert_eq!(health.healthz(at(200)).status, StatusCode::OK);
}

#[test]
fn a_node_that_goes_is_alive_and_not_healthy() {
    let health = Health::default();
    health.set_node_eligible(false);
    let answer = health.healthz(at(1));
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.body.contains(r#""nodeEligible":false"#), "{}", answer.body);
    assert_eq!(health.livez(at(1)).status, StatusCode::OK);
}

#[test]
fn last_updated_is_now_while_healthy() {
    let health = Health::default();
    health.updated(at(5));
    assert!(
        health
            .livez(at(100))
            .body
            .contains(r#""lastUpdated":"1970-01-01T00:01:40Z""#)
    );
    health.queued(at(100));
    let late = health.livez(at(200)).body;
    assert!(late.contains(r#""lastUpdated":"1970-01-01T00:00:05Z""#), "{late}");
}
