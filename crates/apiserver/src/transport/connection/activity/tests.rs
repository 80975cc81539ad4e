use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn limits_the_time_to_the_first_request() {
    let begin = Instant::now();
    let activity = Activity::new(begin);
    assert_eq!(activity.time_left(begin), Ok(FIRST_REQUEST_TIMEOUT));
    assert_eq!(
        activity.time_left(begin + FIRST_REQUEST_TIMEOUT / 2),
        Ok(FIRST_REQUEST_TIMEOUT / 2)
    );
    assert_eq!(
        activity.time_left(begin + FIRST_REQUEST_TIMEOUT),
        Err(IdleReason::NoFirstRequest)
    );
}

#[test]
fn connection_with_a_watch_is_not_idle() {
    let begin = Instant::now();
    let activity = Arc::new(Activity::new(begin));
    let watch = activity.begin();
    let much_later = begin + 3600 * SECOND;
    assert_eq!(activity.time_left(much_later), Ok(IDLE_TIMEOUT));
    activity.begin();
    assert_eq!(activity.time_left(much_later), Ok(IDLE_TIMEOUT));
    activity.in_flight.fetch_add(1, Ordering::Relaxed);
    drop(watch);
    activity.end(much_later);
    assert_eq!(activity.time_left(much_later + IDLE_TIMEOUT - SECOND), Ok(SECOND));
    assert_eq!(
        activity.time_left(much_later + IDLE_TIMEOUT),
        Err(IdleReason::Idle)
    );
}
