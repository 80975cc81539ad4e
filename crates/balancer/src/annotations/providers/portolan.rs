//! Annotations of Portolan, and the one that Kubernetes defines for all clouds.

use std::time::Duration;

use edge::settings::{Alpn, Balance, LogFormat, ProxyVersion, TlsPolicy};

use super::{Provider, shared_rows};
use crate::annotations::row::{AnnotationMeaning, Row};
use crate::annotations::value::{self, keyword, megabits_per_second, number, seconds};
use crate::annotations::values::{AppProtocol, CheckProtocol, StickyMode};

macro_rules! edge {
    ($name:literal) => {
        concat!("portolan.dev/edge-", $name)
    };
}

/// One day in seconds, the maximum of most durations.
const DAY_SECONDS: u32 = 86_400;

pub(super) const PROVIDER: Provider = Provider {
    name: "Portolan",
    prefixes: &["portolan.dev/edge-", "portolan.dev/load-balancer-"],
    rows: ROWS,
};

const APP_PROTOCOLS: [(&str, AppProtocol); 4] = [
    ("tcp", AppProtocol::Tcp),
    ("ssl", AppProtocol::Ssl),
    ("http", AppProtocol::Http),
    ("https", AppProtocol::Https),
];

const ROWS: &[Row] = &[
    Row::assigner(
        "portolan.dev/load-balancer-ips",
        "requests these addresses, separated by commas, at most one of each family",
        AnnotationMeaning::Addresses,
    ),
    Row::assigner(
        "portolan.dev/address-pool",
        "requests this pool, including one without `autoAssign`",
        AnnotationMeaning::Pool,
    ),
    Row::assigner(
        "portolan.dev/allow-shared-ip",
        "shares the address with Services of the same value",
        AnnotationMeaning::SharingKey,
    ),
    Row::scope("portolan.dev/load-balancer-scope", &["Internal"], &["External"]),
    shared_rows::hostname("portolan.dev/load-balancer-hostname"),
    Row::direct(
        "portolan.dev/load-balancer-node-selector",
        "label selector of nodes that announce the address, in the syntax of `kubectl -l`",
        |values, annotation| super::nodes(values, value::node_selector(annotation.value)?),
    ),
    Row::client_ranges(
        "service.beta.kubernetes.io/load-balancer-source-ranges",
        "allowed clients if `spec.loadBalancerSourceRanges` is empty",
        |values, annotation| super::source_ranges(values, annotation.name, value::ranges(annotation.value)?),
    ),
    Row::requires_edge(
        edge!("certificates"),
        "certificates, selected by SNI",
        |values, annotation| {
            values
                .tls
                .certificates
                .set(annotation, value::secrets(annotation.value)?)
        },
    ),
    Row::configures_edge(
        edge!("tls-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |values, annotation| values.tls.ports.set(annotation, value::ports(annotation.value)?),
    ),
    Row::configures_edge(edge!("tls-policy"), "versions of TLS", |values, annotation| {
        let policies = [
            ("tls-1.2-and-1.3", TlsPolicy::Tls12And13),
            ("tls-1.3", TlsPolicy::Tls13),
            ("tls-1.2", TlsPolicy::Tls12),
        ];
        values
            .tls
            .policy
            .set(annotation, keyword(annotation.value, &policies)?)
    }),
    Row::configures_edge(
        edge!("alpn"),
        "ALPN policy; default: the protocols of the port",
        |values, annotation| {
            let policies = [
                ("http1-only", Alpn::Http1Only),
                ("http2-only", Alpn::Http2Only),
                ("http2-optional", Alpn::Http2Optional),
                ("http2-preferred", Alpn::Http2Preferred),
                ("none", Alpn::Never),
            ];
            values
                .tls
                .alpn
                .set(annotation, keyword(annotation.value, &policies)?)
        },
    ),
    Row::requires_edge(
        edge!("protocol"),
        "protocol of all ports",
        |values, annotation| {
            values.protocols.all_ports.set_with_default(
                annotation,
                keyword(annotation.value, &APP_PROTOCOLS)?,
                AppProtocol::Tcp,
            )
        },
    ),
    Row::requires_edge(
        edge!("backend-protocol"),
        "protocol of backends",
        |values, annotation| {
            values.protocols.backends.set_with_default(
                annotation,
                keyword(annotation.value, &APP_PROTOCOLS)?,
                AppProtocol::Tcp,
            )
        },
    ),
    Row::requires_edge(
        edge!("redirect-to-https"),
        "ports of `http` redirect clients to the first port of `https`",
        |values, annotation| {
            values.protocols.redirects_to_https.set_with_default(
                annotation,
                value::bool(annotation.value)?,
                false,
            )
        },
    ),
    Row::requires_edge(
        edge!("proxy-protocol"),
        "version of the PROXY header for backends",
        |values, annotation| {
            let versions = [("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)];
            values
                .proxy_protocol
                .to_backends
                .set(annotation, Some(keyword(annotation.value, &versions)?))
        },
    ),
    Row::requires_edge(
        edge!("accept-proxy-protocol-from"),
        "client ranges that send a PROXY header",
        |values, annotation| {
            values
                .proxy_protocol
                .from_clients
                .set(annotation, value::ranges(annotation.value)?)
        },
    ),
    Row::requires_edge(
        edge!("balance"),
        "balancing algorithm for new connections",
        |values, annotation| {
            let modes = [
                ("round-robin", Balance::RoundRobin),
                ("least-connections", Balance::LeastConnections),
                ("maglev", Balance::Maglev),
            ];
            values.balance.set_with_default(
                annotation,
                keyword(annotation.value, &modes)?,
                Balance::RoundRobin,
            )
        },
    ),
    Row::requires_edge(
        edge!("sticky"),
        "sticky sessions: by source or by cookie",
        |values, annotation| {
            let modes = [
                ("none", StickyMode::Off),
                ("source", StickyMode::Source),
                ("cookie", StickyMode::Cookie),
            ];
            values.stickiness.mode.set_with_default(
                annotation,
                keyword(annotation.value, &modes)?,
                StickyMode::Off,
            )
        },
    ),
    Row::configures_edge(
        edge!("sticky-seconds"),
        "lifetime of stickiness: after the last connection, or of the cookie",
        |values, annotation| {
            let duration = seconds(annotation.value, 1..=DAY_SECONDS)?;
            values.stickiness.cookie_max_age.set(annotation, duration)?;
            values.stickiness.timeout.set(annotation, duration)
        },
    ),
    shared_rows::cookie_name(edge!("cookie-name")),
    Row::prefers_edge(
        edge!("idle-timeout-seconds"),
        "idle timeout",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 1..=DAY_SECONDS)?)
        },
    ),
    Row::configures_edge(
        edge!("connect-timeout-seconds"),
        "timeout of connections to backends",
        |values, annotation| {
            values
                .timeouts
                .connect
                .set(annotation, seconds(annotation.value, 1..=300)?)
        },
    ),
    Row::prefers_edge(
        edge!("draining-seconds"),
        "draining time of connections to a removed backend; 0 closes them at once",
        |values, annotation| {
            let timeout = seconds(annotation.value, 0..=DAY_SECONDS)?;
            values
                .timeouts
                .is_draining
                .set(annotation, timeout != Duration::ZERO)?;
            values.timeouts.draining.set(annotation, timeout)
        },
    ),
    Row::direct(
        "service.portolan.dev/max-connection-age-seconds",
        "age at which connections end, at the edge after the requests under way; minimum 10",
        |values, annotation| {
            let age = seconds(annotation.value, 10..=u32::MAX)?;
            values.timeouts.connection_age_max.set(annotation, age)
        },
    ),
    Row::direct(
        "service.portolan.dev/egress",
        "Pods of the Service leave the cluster with its address: `true` or `false`",
        |values, annotation| {
            values
                .is_egress
                .set_with_default(annotation, value::bool(annotation.value)?, false)
        },
    ),
    Row::requires_edge(
        edge!("connections-max"),
        "open connections of all clients",
        |values, annotation| {
            values
                .limits
                .connections_max
                .set(annotation, number(annotation.value, 1..=10_000_000)?)
        },
    ),
    Row::requires_edge(
        edge!("connections-per-client"),
        "open connections of one client address; replaces `--edge-client-share`",
        |values, annotation| {
            values
                .limits
                .connections_per_client
                .set(annotation, number(annotation.value, 1..=10_000_000)?)
        },
    ),
    Row::requires_edge(
        edge!("connections-per-second"),
        "new connections a second from one client address",
        |values, annotation| {
            values
                .limits
                .connections_per_second
                .set(annotation, number(annotation.value, 1..=1_000_000)?)
        },
    ),
    Row::requires_edge(
        edge!("received-megabits-per-second"),
        "bandwidth from all clients together",
        |values, annotation| {
            let rate = megabits_per_second(annotation.value, 1..=1_000_000)?;
            values.limits.received_bytes_per_second.set(annotation, rate)
        },
    ),
    Row::requires_edge(
        edge!("sent-megabits-per-second"),
        "bandwidth towards all clients together",
        |values, annotation| {
            let rate = megabits_per_second(annotation.value, 1..=1_000_000)?;
            values.limits.sent_bytes_per_second.set(annotation, rate)
        },
    ),
    Row::requires_edge(
        edge!("megabits-per-second"),
        "bandwidth of both directions together, for directions without a limit of their own",
        |values, annotation| {
            let rate = megabits_per_second(annotation.value, 1..=1_000_000)?;
            values.limits.both_bytes_per_second.set(annotation, rate)
        },
    ),
    Row::requires_edge(
        edge!("cross-zone"),
        "use backends of all zones equally",
        |values, annotation| {
            values
                .is_cross_zone
                .set_with_default(annotation, value::bool(annotation.value)?, true)
        },
    ),
    Row::requires_edge(
        edge!("access-log"),
        "enable the access log",
        |values, annotation| {
            values
                .access_log
                .is_enabled
                .set_with_default(annotation, value::bool(annotation.value)?, false)
        },
    ),
    Row::configures_edge(
        edge!("access-log-bucket"),
        "S3 bucket of the files; default: the directory of the process",
        |values, annotation| {
            values
                .access_log
                .bucket
                .set(annotation, value::bucket(annotation.value)?)
        },
    ),
    Row::configures_edge(
        edge!("access-log-prefix"),
        "name prefix of the files",
        |values, annotation| {
            values
                .access_log
                .prefix
                .set(annotation, value::log_prefix(annotation.value)?)
        },
    ),
    Row::configures_edge(
        edge!("access-log-interval-seconds"),
        "time that one file covers",
        |values, annotation| {
            values
                .access_log
                .interval
                .set(annotation, seconds(annotation.value, 1..=DAY_SECONDS)?)
        },
    ),
    Row::configures_edge(
        edge!("access-log-format"),
        "format of a line",
        |values, annotation| {
            let formats = [("common", LogFormat::Common), ("json", LogFormat::Json)];
            values
                .access_log
                .format
                .set(annotation, keyword(annotation.value, &formats)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-protocol"),
        "protocol of health checks, in addition to readiness",
        |values, annotation| {
            let modes = [
                ("tcp", CheckProtocol::Tcp),
                ("ssl", CheckProtocol::Ssl),
                ("http", CheckProtocol::Http),
                ("https", CheckProtocol::Https),
            ];
            values
                .health_check
                .protocol
                .set(annotation, keyword(annotation.value, &modes)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-port"),
        "port of health checks; default: the port of the backend",
        |values, annotation| {
            values
                .health_check
                .port
                .set(annotation, Some(value::port(annotation.value)?))
        },
    ),
    shared_rows::check_path(edge!("health-check-path")),
    shared_rows::check_host(edge!("health-check-host")),
    Row::configures_edge(
        edge!("health-check-statuses"),
        "statuses of a healthy backend, such as 200-299,404",
        |values, annotation| {
            values
                .health_check
                .expected_statuses
                .set(annotation, value::statuses(annotation.value)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-interval-seconds"),
        "interval of health checks",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 1..=3_600)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-timeout-seconds"),
        "timeout of a health check",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 1..=300)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-healthy-threshold"),
        "consecutive successes until a backend is healthy",
        |values, annotation| {
            values
                .health_check
                .healthy_threshold
                .set(annotation, number(annotation.value, 1..=100)?)
        },
    ),
    Row::prefers_edge(
        edge!("health-check-unhealthy-threshold"),
        "consecutive failures until a backend is unhealthy",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 1..=100)?)
        },
    ),
];
