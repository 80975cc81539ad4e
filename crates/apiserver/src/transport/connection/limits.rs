//! Limits of connections, each with its reason.

use std::time::Duration;

/// Concurrent requests of one HTTP/2 connection (upstream's default). The number suffices for all watches and writes of
/// a component, and bounds the memory of one client.
pub(super) const STREAMS_MAX: u32 = 250;

/// Maximum size of the headers of a request: a token of a few kilobytes, and cookies, which clients should not send.
pub(super) const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Maximum size of the read buffer of an HTTP/1 connection: a whole header block and part of a body.
pub(super) const HTTP1_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Flow control windows of an HTTP/2 stream and of a connection: some requests of usual size. With larger windows, a
/// client could use memory faster than the server handles its requests.
pub(super) const STREAM_WINDOW_BYTES: u32 = 256 << 10;
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Maximum size of the send buffer of an HTTP/2 stream: two frames of a list.
pub(super) const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// Maximum duration of a TLS handshake. The handshake of a working client is shorter.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time from the handshake to the first request. Clients connect when they have a request.
pub(super) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without a request in flight until a connection is closed, even if it answers pings (upstream's idle timeout).
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for which a client may read nothing of a response, even if it answers pings. Without the limit, it would hold the
/// memory of its responses while the connection is open. Watches, logs and proxied responses wait for their readers.
pub(super) const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which an idle client must acknowledge the shutdown of its connection.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the head of an HTTP/1 request, including the idle time before it (upstream's idle timeout).
pub(super) const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(90);

/// Interval of pings on an idle HTTP/2 connection, and time for their acknowledgement (the values of client-go).
pub(super) const PING_PERIOD: Duration = Duration::from_secs(30);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// TCP keepalive, which detects absent peers of HTTP/1 connections.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_PERIOD: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// Time for which a peer may leave data unacknowledged or its window closed.
pub(super) const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(60);

/// Delay after a failed `accept`, for example without free file descriptors. It bounds the CPU time of the loop.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Length of the kernel's accept queue: connections of a whole cluster after a restart.
pub(crate) const BACKLOG: u32 = 4096;
