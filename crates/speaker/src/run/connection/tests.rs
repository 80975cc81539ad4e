use super::*;

#[test]
fn time_to_read_a_message_exceeds_the_hold_time() {
    for hold_seconds in [0, 3, 90, 240, 480, u16::MAX] {
        let limit = send_timeout(hold_seconds);
        assert!(limit >= SEND_TIMEOUT_MIN, "{hold_seconds}");
        assert!(limit > Duration::from_secs(hold_seconds.into()), "{hold_seconds}");
    }
}
