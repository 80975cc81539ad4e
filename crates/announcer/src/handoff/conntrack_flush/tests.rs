use netlink::conntrack::Direction;

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
        "the connection may wait for an acknowledgment"
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

fn flow_in(state: TcpState) -> Flow {
    let (client, frontend, endpoint) = ("198.51.100.7:40000", "192.0.2.5:80", "10.244.1.4:8080");
    let direction = |source: &str, destination: &str| Direction {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    };
    Flow {
        protocol: tcp::PROTOCOL,
        original: direction(client, frontend),
        reply: direction(endpoint, client),
        counters: None,
        tcp_state: Some(state),
        expires_in_seconds: 86_400,
        began_at_nanoseconds: None,
        is_replied: true,
        is_assured: true,
        id: 1,
        zone: 0,
    }
}

#[test]
fn only_open_connections_are_excepted_from_a_flush() {
    let is_flushed = |state, flush, is_kept_open| {
        is_flushed(&flow_in(state), flush, Some(TIMEOUTS), |flow| {
            assert_eq!(flow.tcp_state, Some(state));
            is_kept_open
        })
    };
    let active = ConntrackFlush::ActiveWithin(ABSENCE);
    assert!(is_flushed(TcpState::Established, active, false));
    assert!(!is_flushed(TcpState::Established, active, true));
    assert!(is_flushed(TcpState::TimeWait, active, true));
    assert!(is_flushed(TcpState::TimeWait, ConntrackFlush::Closed, true));
    assert!(!is_flushed(TcpState::Established, ConntrackFlush::Closed, false));
}
