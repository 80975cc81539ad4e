use super::*;

const TIMEOUTS: Timeouts = Timeouts {
    established: 86_400,
    unanswered: 300,
};
const AWAY: Duration = Duration::from_secs(60);

#[test]
fn only_what_can_have_nothing_more_to_say_is_over() {
    for state in [TcpState::TimeWait, TcpState::Close] {
        assert!(is_over(Some(state)), "{state:?}");
    }
    for state in [
        TcpState::SynSent,
        TcpState::SynReceived,
        TcpState::Established,
        TcpState::FinWait,
        TcpState::CloseWait,
        TcpState::LastAck,
    ] {
        assert!(!is_over(Some(state)), "{state:?}");
    }
    assert!(!is_over(None));
}

#[test]
fn in_doubt_a_connection_spoke() {
    let was_silent = |state, left: u32| TIMEOUTS.was_silent(Some(state), left, AWAY);
    assert!(was_silent(TcpState::Established, 86_400 - 61));
    assert!(!was_silent(TcpState::Established, 86_400 - 60));
    assert!(!was_silent(TcpState::Established, 86_400));
    assert!(was_silent(TcpState::Established, 301));
    assert!(
        !was_silent(TcpState::Established, 300),
        "it may wait for an answer since now"
    );
    assert!(
        !was_silent(TcpState::Established, 432_000),
        "it was given its time when others were in force"
    );
    assert!(
        !was_silent(TcpState::CloseWait, 301),
        "what is half closed has other times"
    );
}
