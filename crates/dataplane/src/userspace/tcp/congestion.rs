//! Congestion control of relayed connections.
//!
//! BBR paces packets by a timer. This helps on long-distance paths. Within a host or a rack, a bulk stream only waits
//! for the timer, and the timer costs CPU time. On hosts with BBR, connections therefore start without pacing, and
//! switch to BBR if they carry bulk data over a long-distance path.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// Default algorithm of the network namespace of the calling thread.
const ALGORITHM_FILE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Name prefix of algorithms that pace by a timer.
const TIMER_ALGORITHM_PREFIX: &str = "bbr";
/// Algorithms without a timer, in order of preference.
const ALGORITHMS_WITHOUT_TIMER: [&str; 2] = ["cubic", "reno"];
/// Shortest round-trip time of a long-distance path.
const REMOTE_ROUND_TRIP_MIN: Duration = Duration::from_millis(1);

/// Congestion control of connections; empty if the default of the host is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct CongestionControl(Option<Algorithms>);

/// Congestion control algorithms for local and remote peers.
#[derive(Clone, Debug)]
struct Algorithms {
    local: &'static str,
    remote: Arc<str>,
}

impl CongestionControl {
    /// Reads the default algorithm of this host, and selects another one if that paces by a timer.
    pub(crate) fn detect() -> Self {
        let algorithm = std::fs::read_to_string(ALGORITHM_FILE).unwrap_or_default();
        let remote = algorithm.trim();
        if !remote.starts_with(TIMER_ALGORITHM_PREFIX) {
            return Self(None);
        }
        let is_permitted = |local: &&str| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
            socket.is_ok_and(|socket| socket.set_tcp_congestion(local.as_bytes()).is_ok())
        };
        let local = ALGORITHMS_WITHOUT_TIMER.into_iter().find(is_permitted);
        Self(local.map(|local| Algorithms {
            local,
            remote: remote.into(),
        }))
    }

    /// Sets the initial algorithm of a connection, or of all connections of a listener.
    pub(crate) fn apply_initial(&self, socket: &Socket) {
        if let Some(algorithms) = &self.0
            && let Err(error) = socket.set_tcp_congestion(algorithms.local.as_bytes())
        {
            tracing::debug!(%error, "initial congestion control not set");
        }
    }

    /// Selects the algorithm for a connection that turned out to carry bulk data.
    pub(crate) fn apply_bulk(&self, connection: &impl AsFd) {
        let Some(algorithms) = &self.0 else { return };
        let is_remote = netlink::tcp::min_round_trip(connection.as_fd())
            .is_ok_and(|round_trip| round_trip.is_some_and(|round_trip| round_trip >= REMOTE_ROUND_TRIP_MIN));
        if is_remote
            && let Err(error) = SockRef::from(connection).set_tcp_congestion(algorithms.remote.as_bytes())
        {
            tracing::debug!(%error, "congestion control for bulk data not set");
        }
    }
}
