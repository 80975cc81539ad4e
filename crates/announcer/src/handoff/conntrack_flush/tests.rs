use super::*;

const TIMEOUTS: Timeouts = Timeouts {
    established: 86_400,
    unacknowledged: 300,
};
const ABSENCE: Duration = Duration::from_secs(60);

#[test]
fn time_wait_and_close_are_the_closed_states() {
    for state in [TcpState::TimeWait, TcpState::Close] {
        assert!(is_closed(Some(state)), "{state:?}");
    }
    for state in [
        TcpState::SynSent,
        TcpState::SynReceived,
        TcpState::Established,
        TcpState::FinWait,
        TcpState::CloseWait,
        TcpState::LastAck,
    ] {
        assert!(!is_closed(Some(state)), "{state:?}");
    }
    assert!(!is_closed(None));
}

#[test]
fn ambiguous_connections_count_as_active() {
    let was_idle = |state, left: u32| TIMEOUTS.was_idle(Some(state), left, ABSENCE);
    assert!(was_idle(TcpState::Established, 86_400 - 61));
    assert!(!was_idle(TcpState::Established, 86_400 - 60));
    assert!(!was_idle(TcpState::Established, 86_400));
    assert!(was_idle(TcpState::Established, 301));
    assert!(
        !was_idle(TcpState::Established, 300),
        "it may wait for an acknowledgment"
    );
    assert!(
        !was_idle(TcpState::Established, 432_000),
        "its timeout was set under another sysctl value"
    );
    assert!(
        !was_idle(TcpState::CloseWait, 301),
        "half-closed connections have other timeouts"
    );
}
