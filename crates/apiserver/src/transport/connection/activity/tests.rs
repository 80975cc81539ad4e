use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_first_request_must_come_soon() {
    let begin = Instant::now();
    let activity = Activity::new(begin);
    assert_eq!(activity.time_left(begin), Ok(FIRST_REQUEST_TIMEOUT));
    assert_eq!(
        activity.time_left(begin + FIRST_REQUEST_TIMEOUT / 2),
        Ok(FIRST_REQUEST_TIMEOUT / 2)
    );
    assert_eq!(
        activity.time_left(begin + FIRST_REQUEST_TIMEOUT),
        Err(Silence::NoFirstRequest)
    );
}

#[test]
fn a_connection_with_a_watch_is_never_silent() {
    let begin = Instant::now();
    let activity = Arc::new(Activity::new(begin));
    let watch = activity.begin();
    let much_later = begin + 3600 * SECOND;
    assert_eq!(activity.time_left(much_later), Ok(IDLE_TIMEOUT));
    activity.begin();
    assert_eq!(activity.time_left(much_later), Ok(IDLE_TIMEOUT));
    activity.under_way.fetch_add(1, Ordering::Relaxed);
    drop(watch);
    activity.end(much_later);
    assert_eq!(activity.time_left(much_later + IDLE_TIMEOUT - SECOND), Ok(SECOND));
    assert_eq!(activity.time_left(much_later + IDLE_TIMEOUT), Err(Silence::Idle));
}
