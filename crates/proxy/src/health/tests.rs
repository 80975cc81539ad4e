use std::sync::OnceLock;

use super::*;

/// Returns a moment this many seconds after the start of both clocks.
fn at(second: u32) -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    Moment {
        wall: Timestamp::from_second(second.into()).expect("a time"),
        monotonic: *START.get_or_init(Instant::now) + Duration::from_secs(second.into()),
    }
}

#[test]
fn clock_changes_do_not_affect_health() {
    let year: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
    let health = Health::default();
    health.queued(at(10));
    // The wall clock is set forward, and back again to before the change.
    let forward = Moment { wall: year, ..at(20) };
    assert!(health.is_healthy(forward));
    assert!(
        health
            .livez(forward)
            .body
            .contains(r#""currentTime":"2030-01-01T00:00:00Z""#)
    );
    let back = Moment {
        wall: Timestamp::UNIX_EPOCH,
        ..at(70)
    };
    assert!(
        !health.is_healthy(back),
        "the change is pending whatever the wall clock shows"
    );
}

#[test]
fn unhealthy_when_a_change_waits_too_long() {
    let health = Health::default();
    assert!(health.is_healthy(at(0)), "healthy while it starts");
    health.queued(at(10));
    health.queued(at(50));
    assert!(health.is_healthy(at(69)));
    assert_eq!(health.behind(at(69)), Duration::from_secs(59));
    assert!(!health.is_healthy(at(70)), "the oldest counts");
    assert_eq!(health.healthz(at(70)).status, StatusCode::SERVICE_UNAVAILABLE);
    health.updated(at(71));
    assert_eq!(health.behind(at(200)), Duration::ZERO);
    assert_eq!(health.healthz(at(200)).status, StatusCode::OK);
}

/// HLT-02.
#[test]
fn node_under_deletion_is_live_but_unhealthy() {
    let health = Health::default();
    health.set_node_eligible(false);
    let answer = health.healthz(at(1));
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.body.contains(r#""nodeEligible":false"#), "{}", answer.body);
    assert!(
        !answer.body.contains(r#""healthy":false"#),
        "the proxy is healthy: {}",
        answer.body
    );
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

/// HLT-03.
#[test]
fn families_report_the_time_of_the_last_update() {
    let health = Health::default();
    health.updated(at(5));
    let body = health.livez(at(100)).body;
    let count = body.matches(r#""lastUpdated":"1970-01-01T00:00:05Z""#).count();
    assert_eq!(count, 2, "{body}");
    health.set_node_eligible(false);
    let body = health.healthz(at(100)).body;
    let count = body.matches(r#""lastUpdated":"1970-01-01T00:00:05Z""#).count();
    assert_eq!(count, 3, "{body}");
}
