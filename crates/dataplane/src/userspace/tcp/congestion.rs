//! How streams make room for others. BBR lets packets go by a timer. That pays over long lines; within a machine or a rack a
//! stream only waits for it, and the timer takes the processor from those who talk. So where BBR is what this machine
//! uses, connections begin without, and get it back if they have much to say over a longer line.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// What this machine uses, in the calling thread's network namespace.
const IN_USE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// How the names of those begin that have a timer.
const TIMED: &str = "bbr";
/// Those without, in the order of preference.
const UNTIMED: [&str; 2] = ["cubic", "reno"];
/// The shortest round trip of a longer line.
const FAR: Duration = Duration::from_millis(1);

/// The congestion control of connections.
#[derive(Clone, Debug, Default)]
pub struct CongestionControl(Option<Choice>);

#[derive(Clone, Debug)]
struct Choice {
    near: &'static str,
    far: Arc<str>,
}

impl CongestionControl {
    /// What is to be used on this machine: what it uses, unless that has a timer.
    pub fn of_machine() -> Self {
        let in_use = std::fs::read_to_string(IN_USE).unwrap_or_default();
        let far = in_use.trim();
        if !far.starts_with(TIMED) {
            return Self(None);
        }
        let is_permitted = |near: &&str| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
            socket.is_ok_and(|socket| socket.set_tcp_congestion(near.as_bytes()).is_ok())
        };
        let near = UNTIMED.into_iter().find(is_permitted);
        Self(near.map(|near| Choice {
            near,
            far: far.into(),
        }))
    }

    /// Has a connection begin, or all those that a listener will take.
    pub fn begin(&self, socket: &Socket) {
        if let Some(choice) = &self.0
            && let Err(error) = socket.set_tcp_congestion(choice.near.as_bytes())
        {
            tracing::debug!(%error, "a connection keeps the machine's congestion control");
        }
    }

    /// Settles how a connection goes on that is sent much.
    pub fn settle(&self, connection: &impl AsFd) {
        let Some(choice) = &self.0 else { return };
        let is_far = netlink::tcp::min_round_trip(connection.as_fd())
            .is_ok_and(|round_trip| round_trip.is_some_and(|round_trip| round_trip >= FAR));
        if is_far && let Err(error) = SockRef::from(connection).set_tcp_congestion(choice.far.as_bytes()) {
            tracing::debug!(%error, "a connection goes on without the machine's congestion control");
        }
    }
}
