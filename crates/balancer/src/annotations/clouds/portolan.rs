//! Portolan's own annotations, and the one that Kubernetes has for all clouds.

use std::time::Duration;

use edge::settings::{Alpn, Balance, LogFormat, ProxyVersion, TlsPolicy};

use super::{Place, alike};
use crate::annotations::asked::{Asks, Speaks, Sticks};
use crate::annotations::row::{Means, Row};
use crate::annotations::value::{self, megabits_per_second, number, seconds, word};

macro_rules! edge {
    ($name:literal) => {
        concat!("portolan.dev/edge-", $name)
    };
}

/// A day: the longest of most spans.
const DAY: u32 = 86_400;

pub(super) const PLACE: Place = Place {
    name: "Portolan",
    prefixes: &["portolan.dev/edge-", "portolan.dev/load-balancer-"],
    rows: ROWS,
};

const SPEAKS: [(&str, Speaks); 4] = [
    ("tcp", Speaks::Tcp),
    ("ssl", Speaks::Ssl),
    ("http", Speaks::Http),
    ("https", Speaks::Https),
];

const ROWS: &[Row] = &[
    Row::assigner(
        "portolan.dev/load-balancer-ips",
        "requests these addresses, separated by commas, at most one of each family",
        Means::Addresses,
    ),
    Row::assigner(
        "portolan.dev/address-pool",
        "requests this pool, including one without `autoAssign`",
        Means::Pool,
    ),
    Row::assigner(
        "portolan.dev/allow-shared-ip",
        "shares the address with Services of the same value",
        Means::Sharing,
    ),
    Row::scope("portolan.dev/load-balancer-scope", &["Internal"], &["External"]),
    alike::hostname("portolan.dev/load-balancer-hostname"),
    Row::tunes(
        "portolan.dev/load-balancer-node-selector",
        "label selector of nodes that announce the address, in the syntax of `kubectl -l`",
        |asked, field| super::nodes(asked, value::node_selector(field.text)?),
    ),
    Row::restricts(
        "service.beta.kubernetes.io/load-balancer-source-ranges",
        "allowed clients if `spec.loadBalancerSourceRanges` is empty",
        |asked, field| super::source_ranges(asked, field.name, value::ranges(field.text)?),
    ),
    Row::hard(
        edge!("certificates"),
        "certificates, selected by SNI",
        |asked, field| asked.certificates.put(field, value::secrets(field.text)?),
    ),
    Row::tunes(
        edge!("tls-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |asked, field| asked.tls_ports.put(field, value::ports(field.text)?),
    ),
    Row::tunes(edge!("tls-policy"), "versions of TLS", |asked, field| {
        let policies = [
            ("tls-1.2-and-1.3", TlsPolicy::Tls12And13),
            ("tls-1.3", TlsPolicy::Tls13),
            ("tls-1.2", TlsPolicy::Tls12),
        ];
        asked.tls_policy.put(field, word(field.text, &policies)?)
    }),
    Row::tunes(
        edge!("alpn"),
        "ALPN policy; default: the protocols of the port",
        |asked, field| {
            let policies = [
                ("http1-only", Alpn::Http1Only),
                ("http2-only", Alpn::Http2Only),
                ("http2-optional", Alpn::Http2Optional),
                ("http2-preferred", Alpn::Http2Preferred),
                ("none", Alpn::Never),
            ];
            asked.alpn.put(field, word(field.text, &policies)?)
        },
    ),
    Row::hard(edge!("protocol"), "protocol of all ports", |asked, field| {
        asked
            .speaks
            .put_unless(field, word(field.text, &SPEAKS)?, Speaks::Tcp)
    }),
    Row::hard(
        edge!("backend-protocol"),
        "protocol of backends",
        |asked, field| {
            asked
                .backends_speak
                .put_unless(field, word(field.text, &SPEAKS)?, Speaks::Tcp)
        },
    ),
    Row::hard(
        edge!("redirect-to-https"),
        "ports of `http` redirect clients to the first port of `https`",
        |asked, field| {
            asked
                .redirects_to_https
                .put_unless(field, value::bool(field.text)?, false)
        },
    ),
    Row::hard(
        edge!("proxy-protocol"),
        "version of the PROXY header for backends",
        |asked, field| {
            let versions = [("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)];
            asked
                .proxy_to_backends
                .put(field, Some(word(field.text, &versions)?))
        },
    ),
    Row::hard(
        edge!("accept-proxy-protocol-from"),
        "client ranges that send a PROXY header",
        |asked, field| asked.proxy_from.put(field, value::ranges(field.text)?),
    ),
    Row::hard(
        edge!("balance"),
        "balancing algorithm for new connections",
        |asked, field| {
            let ways = [
                ("round-robin", Balance::RoundRobin),
                ("least-connections", Balance::LeastConnections),
                ("maglev", Balance::Maglev),
            ];
            asked
                .balance
                .put_unless(field, word(field.text, &ways)?, Balance::RoundRobin)
        },
    ),
    Row::hard(
        edge!("sticky"),
        "sticky sessions: by source or by cookie",
        |asked, field| {
            let ways = [
                ("none", Sticks::Never),
                ("source", Sticks::BySource),
                ("cookie", Sticks::ByCookie),
            ];
            asked
                .sticks
                .put_unless(field, word(field.text, &ways)?, Sticks::Never)
        },
    ),
    Row::tunes(
        edge!("sticky-seconds"),
        "lifetime of stickiness: after the last connection, or of the cookie",
        |asked, field| {
            let lasts = seconds(field.text, 1..=DAY)?;
            asked.cookie_max_age.put(field, lasts)?;
            asked.sticky_timeout.put(field, lasts)
        },
    ),
    alike::cookie_name(edge!("cookie-name")),
    Row::soft(edge!("idle-timeout-seconds"), "idle timeout", |asked, field| {
        asked.idle_timeout.put(field, seconds(field.text, 1..=DAY)?)
    }),
    Row::tunes(
        edge!("connect-timeout-seconds"),
        "timeout of connections to backends",
        |asked, field| asked.connect_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::soft(
        edge!("draining-seconds"),
        "draining time of connections to a removed backend; 0 closes them at once",
        |asked, field| {
            let timeout = seconds(field.text, 0..=DAY)?;
            asked.drains.put(field, timeout != Duration::ZERO)?;
            asked.draining_timeout.put(field, timeout)
        },
    ),
    Row::hard(
        edge!("connections-max"),
        "open connections of all clients",
        |asked, field| {
            asked
                .connections_max
                .put(field, number(field.text, 1..=10_000_000)?)
        },
    ),
    Row::hard(
        edge!("connections-per-client"),
        "open connections of one client address; replaces `--edge-client-share`",
        |asked, field| {
            asked
                .connections_per_client
                .put(field, number(field.text, 1..=10_000_000)?)
        },
    ),
    Row::hard(
        edge!("connections-per-second"),
        "new connections a second from one client address",
        |asked, field| {
            asked
                .connections_per_second
                .put(field, number(field.text, 1..=1_000_000)?)
        },
    ),
    Row::hard(
        edge!("received-megabits-per-second"),
        "bandwidth from all clients together",
        |asked, field| {
            let rate = megabits_per_second(field.text, 1..=1_000_000)?;
            asked.received_bytes_per_second.put(field, rate)
        },
    ),
    Row::hard(
        edge!("sent-megabits-per-second"),
        "bandwidth towards all clients together",
        |asked, field| {
            let rate = megabits_per_second(field.text, 1..=1_000_000)?;
            asked.sent_bytes_per_second.put(field, rate)
        },
    ),
    Row::hard(
        edge!("megabits-per-second"),
        "bandwidth of both directions together, for directions without a limit of their own",
        |asked, field| {
            let rate = megabits_per_second(field.text, 1..=1_000_000)?;
            asked.both_bytes_per_second.put(field, rate)
        },
    ),
    Row::hard(
        edge!("cross-zone"),
        "use backends of all zones equally",
        |asked, field| {
            asked
                .is_cross_zone
                .put_unless(field, value::bool(field.text)?, true)
        },
    ),
    Row::hard(edge!("access-log"), "enable the access log", |asked, field| {
        asked.is_logged.put_unless(field, value::bool(field.text)?, false)
    }),
    Row::tunes(
        edge!("access-log-bucket"),
        "S3 bucket of the files; default: the directory of the process",
        |asked, field| asked.log_bucket.put(field, value::bucket(field.text)?),
    ),
    Row::tunes(
        edge!("access-log-prefix"),
        "name prefix of the files",
        |asked, field| asked.log_prefix.put(field, value::log_prefix(field.text)?),
    ),
    Row::tunes(
        edge!("access-log-interval-seconds"),
        "time that one file covers",
        |asked, field| asked.log_interval.put(field, seconds(field.text, 1..=DAY)?),
    ),
    Row::tunes(edge!("access-log-format"), "format of a line", |asked, field| {
        let formats = [("common", LogFormat::Common), ("json", LogFormat::Json)];
        asked.log_format.put(field, word(field.text, &formats)?)
    }),
    Row::soft(
        edge!("health-check-protocol"),
        "protocol of health checks, in addition to readiness",
        |asked, field| {
            let ways = [
                ("tcp", Asks::Tcp),
                ("ssl", Asks::Ssl),
                ("http", Asks::Http),
                ("https", Asks::Https),
            ];
            asked.check.put(field, word(field.text, &ways)?)
        },
    ),
    Row::soft(
        edge!("health-check-port"),
        "port of health checks; default: the port of the backend",
        |asked, field| asked.check_port.put(field, Some(value::port(field.text)?)),
    ),
    alike::check_path(edge!("health-check-path")),
    alike::check_host(edge!("health-check-host")),
    Row::tunes(
        edge!("health-check-statuses"),
        "statuses of a healthy backend, such as 200-299,404",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::soft(
        edge!("health-check-interval-seconds"),
        "interval of health checks",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 1..=3_600)?),
    ),
    Row::soft(
        edge!("health-check-timeout-seconds"),
        "timeout of a health check",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 1..=300)?),
    ),
    Row::soft(
        edge!("health-check-healthy-threshold"),
        "consecutive successes until a backend is healthy",
        |asked, field| asked.check_healthy.put(field, number(field.text, 1..=100)?),
    ),
    Row::soft(
        edge!("health-check-unhealthy-threshold"),
        "consecutive failures until a backend is unhealthy",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 1..=100)?),
    ),
];
