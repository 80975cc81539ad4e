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

#[test]
fn connection_ends_if_its_client_reads_no_response() {
    let begin = Instant::now();
    let activity = Arc::new(Activity::new(begin));
    let [first, second] = [activity.begin(), activity.begin()];
    activity.begin_frame(first.number, begin);
    activity.begin_frame(second.number, begin + 10 * SECOND);
    assert_eq!(
        activity.time_left(begin + 30 * SECOND),
        Ok(UNREAD_TIMEOUT - 30 * SECOND)
    );
    // Another response does not extend the time of the first one.
    activity.end_frame(second.number, begin + 50 * SECOND);
    assert_eq!(
        activity.time_left(begin + UNREAD_TIMEOUT),
        Err(IdleReason::Unread)
    );
    activity.end_frame(first.number, begin + UNREAD_TIMEOUT);
    assert_eq!(activity.time_left(begin + UNREAD_TIMEOUT), Ok(IDLE_TIMEOUT));
}

#[test]
fn progress_of_a_response_extends_its_time() {
    let begin = Instant::now();
    let activity = Arc::new(Activity::new(begin));
    let response = activity.begin();
    activity.begin_frame(response.number, begin);
    activity.begin_frame(response.number, begin + SECOND);
    activity.end_frame(response.number, begin + 50 * SECOND);
    assert_eq!(
        activity.time_left(begin + UNREAD_TIMEOUT),
        Ok(UNREAD_TIMEOUT - 10 * SECOND)
    );
}
