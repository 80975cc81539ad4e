//! Bounds of connections, each with its reason.

use std::time::Duration;

/// Requests at a time on one HTTP/2 connection, as upstream has it by default: enough for the watches of a component
/// with all its writes, and little enough that one client cannot take all of the memory.
pub(super) const STREAMS_MAX: u32 = 250;

/// Bytes of a request's headers: a token of some kilobytes, and cookies that clients should not send.
pub(super) const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Bytes that an HTTP/1 connection buffers: a whole header block and some body.
pub(super) const HTTP1_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Bytes that one HTTP/2 stream or connection may send before it is read: some requests of usual size. Larger
/// windows would let a client fill memory faster than its requests are answered.
pub(super) const STREAM_WINDOW_BYTES: u32 = 256 << 10;
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of answers that one HTTP/2 stream may have buffered: two frames of a list.
pub(super) const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// How long a TLS handshake may take: a client that is slower is stuck or means harm.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take from its handshake to its first request: clients connect to ask something.
pub(super) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection without any request under way is kept, even if it answers pings: upstream's idle timeout.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for an idle connection to receive the end of the connection.
pub(super) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an HTTP/1 client may take to send a request's head, idle time between requests included: upstream's
/// idle timeout.
pub(super) const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(90);

/// A silent HTTP/2 connection is asked for a sign of life this often, and closed if none comes in time: upstream's
/// clients do the same.
pub(super) const PING_PERIOD: Duration = Duration::from_secs(30);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The kernel finds out about peers that are gone, for connections that HTTP has no pings for.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_PERIOD: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// How long a peer may leave what we sent unacknowledged, or its window closed, before it counts as gone.
pub(super) const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

/// Pause after the system could not give us another connection (out of file descriptors), so that the loop does
/// not spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that wait in the kernel: those of a whole cluster that comes back after a restart.
pub(crate) const BACKLOG: u32 = 4096;
