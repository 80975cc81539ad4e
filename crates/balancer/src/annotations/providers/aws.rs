//! Annotations of AWS for Classic and Network Load Balancers, as the in-tree provider, cloud-provider-aws and
//! the AWS Load Balancer Controller define them.

use edge::settings::{Alpn, ProxyVersion, TlsPolicy};
use ipam::pools::Family;

use super::{Provider, shared_rows};
use crate::annotations::row::{Annotation, AnnotationMeaning, ApplyError, Effect, Remedy, Row};
use crate::annotations::value::{self, InvalidValue, keyword, minutes, number, seconds};
use crate::annotations::values::{AnnotationValues, AppProtocol, CheckProtocol, StickyMode};

macro_rules! aws {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/aws-load-balancer-", $name)
    };
}

pub(super) const PROVIDER: Provider = Provider {
    name: "AWS",
    prefixes: &["service.beta.kubernetes.io/aws-load-balancer-"],
    rows: ROWS,
};

const TAGS: &str = "tags of cloud resources";
const NETWORK: &str = "networks of the cloud";

const ROWS: &[Row] = &[
    Row::scope(aws!("internal"), &["true", "0.0.0.0/0"], &["false"]),
    Row::scope(aws!("scheme"), &["internal"], &["internet-facing"]),
    Row::direct(
        aws!("type"),
        "`nlb` and other values forward packets: timeouts, draining and health checks alone do not select the edge",
        |values, annotation| {
            let kinds = ["nlb", "nlb-ip", "external"].map(|kind| (kind, true));
            let forwards_packets = keyword(annotation.value, &kinds)?;
            values.proxy_protocol.version.set(annotation, ProxyVersion::V2)?;
            values.forwards_packets.set(annotation, forwards_packets)
        },
    ),
    Row::direct(
        aws!("nlb-target-type"),
        "type of targets; endpoints are always contacted directly",
        |_, annotation| {
            Ok(keyword(
                annotation.value,
                &[("instance", Effect::Unchanged), ("ip", Effect::Unchanged)],
            )?)
        },
    ),
    shared_rows::certificates(aws!("ssl-cert")),
    Row::configures_edge(
        aws!("ssl-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |values, annotation| values.tls.ports.set(annotation, value::ports(annotation.value)?),
    ),
    Row::requires_edge(
        aws!("backend-protocol"),
        "protocol of backends; with a certificate also that of clients",
        |values, annotation| {
            let protocols = [
                ("tcp", AppProtocol::Tcp),
                ("ssl", AppProtocol::Ssl),
                ("http", AppProtocol::Http),
                ("https", AppProtocol::Https),
            ];
            let protocol = keyword(annotation.value, &protocols)?;
            values.protocols.backends.set(annotation, protocol)?;
            // Without a certificate, protocols other than HTTP do not change the listener.
            Ok(match protocol {
                AppProtocol::Http => Effect::Changed,
                _ => Effect::Unchanged,
            })
        },
    ),
    Row::configures_edge(
        aws!("ssl-negotiation-policy"),
        "versions of TLS: policies with `TLS13` in their names include 1.3, all others are 1.2 only; 1.2 only with ECDHE and AEAD",
        |values, annotation| values.tls.policy.set(annotation, policy(annotation.value)?),
    ),
    Row::configures_edge(
        aws!("alpn-policy"),
        "ALPN policy; default: h2 and http/1.1 where the edge serves HTTP, otherwise none",
        |values, annotation| {
            let policies = [
                ("HTTP1Only", Alpn::Http1Only),
                ("HTTP2Only", Alpn::Http2Only),
                ("HTTP2Optional", Alpn::Http2Optional),
                ("HTTP2Preferred", Alpn::Http2Preferred),
                ("None", Alpn::Never),
            ];
            values
                .tls
                .alpn
                .set(annotation, keyword(annotation.value, &policies)?)
        },
    ),
    Row::requires_edge(
        aws!("proxy-protocol"),
        "PROXY header for backends: version 1, with type `nlb` version 2",
        |values, annotation| {
            let version = keyword(annotation.value, &[("*", ProxyVersion::V1)])?;
            values.proxy_protocol.to_backends.set(annotation, Some(version))
        },
    ),
    Row::requires_edge(
        aws!("access-log-enabled"),
        "enable the access log",
        |values, annotation| {
            values
                .access_log
                .is_enabled
                .set_with_default(annotation, value::bool(annotation.value)?, false)
        },
    ),
    Row::configures_edge(
        aws!("access-log-emit-interval"),
        "minutes of lines in a file; default 60",
        |values, annotation| {
            let interval = minutes(annotation.value, 1..=60)
                .ok()
                .filter(|interval| [300, 3_600].contains(&interval.as_secs()));
            values.access_log.interval.set(
                annotation,
                interval.ok_or_else(|| InvalidValue::expected("minutes, 5 or 60"))?,
            )
        },
    ),
    Row::configures_edge(
        aws!("access-log-s3-bucket-name"),
        "bucket; without S3, a directory of that name",
        |values, annotation| {
            values
                .access_log
                .bucket
                .set(annotation, value::bucket(annotation.value)?)
        },
    ),
    Row::configures_edge(
        aws!("access-log-s3-bucket-prefix"),
        "name prefix of the files",
        |values, annotation| {
            values
                .access_log
                .prefix
                .set(annotation, value::log_prefix(annotation.value)?)
        },
    ),
    Row::prefers_edge(
        aws!("connection-draining-enabled"),
        "draining of connections to a removed backend; `false` closes them at once",
        |values, annotation| {
            values
                .timeouts
                .is_draining
                .set_with_default(annotation, value::bool(annotation.value)?, false)
        },
    ),
    Row::configures_edge(
        aws!("connection-draining-timeout"),
        "draining time, 1 to 3600 seconds; default 300",
        |values, annotation| {
            values
                .timeouts
                .draining
                .set(annotation, seconds(annotation.value, 1..=3_600)?)
        },
    ),
    Row::prefers_edge(
        aws!("connection-idle-timeout"),
        "idle timeout, 1 to 4000 seconds; default 60",
        |values, annotation| {
            values
                .timeouts
                .idle
                .set(annotation, seconds(annotation.value, 1..=4_000)?)
        },
    ),
    Row::requires_edge(
        aws!("cross-zone-load-balancing-enabled"),
        "`false` prefers backends in the zone of the edge; default `true`",
        |values, annotation| {
            values
                .is_cross_zone
                .set_with_default(annotation, value::bool(annotation.value)?, true)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-protocol"),
        "protocol of health checks",
        |values, annotation| {
            let protocols = [
                ("TCP", CheckProtocol::Tcp),
                ("SSL", CheckProtocol::Ssl),
                ("HTTP", CheckProtocol::Http),
                ("HTTPS", CheckProtocol::Https),
            ];
            values
                .health_check
                .protocol
                .set(annotation, keyword(annotation.value, &protocols)?)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-port"),
        "port of health checks: `traffic-port` or a number",
        |values, annotation| {
            if annotation.value == "traffic-port" {
                return values.health_check.port.set_with_default(annotation, None, None);
            }
            let port = value::port(annotation.value)
                .map_err(|error| error.describe(|expected| format!("traffic-port or {expected}")))?;
            values.health_check.port.set(annotation, Some(port))
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-path"),
        "path of the health check; default `/`",
        |values, annotation| {
            values
                .health_check
                .path
                .set(annotation, value::path(annotation.value)?)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-healthy-threshold"),
        "successes until a backend is healthy, 2 to 10; default 2",
        |values, annotation| {
            values
                .health_check
                .healthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10; default 6",
        |values, annotation| {
            values
                .health_check
                .unhealthy_threshold
                .set(annotation, number(annotation.value, 2..=10)?)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-timeout"),
        "timeout of a health check, 2 to 120 seconds and at most the interval; default 5",
        |values, annotation| {
            values
                .health_check
                .timeout
                .set(annotation, seconds(annotation.value, 2..=120)?)
        },
    ),
    Row::prefers_edge(
        aws!("healthcheck-interval"),
        "interval of health checks, 5 to 300 seconds; default 10",
        |values, annotation| {
            values
                .health_check
                .interval
                .set(annotation, seconds(annotation.value, 5..=300)?)
        },
    ),
    Row::configures_edge(
        aws!("healthcheck-success-codes"),
        "statuses of a healthy backend; default 200-399",
        |values, annotation| {
            values
                .health_check
                .expected_statuses
                .set(annotation, value::statuses(annotation.value)?)
        },
    ),
    Row::requires_edge(
        aws!("target-group-attributes"),
        "`proxy_protocol_v2.enabled`, `deregistration_delay.timeout_seconds`, `stickiness.enabled`, \
         `load_balancing.cross_zone.enabled`",
        target_group,
    ),
    Row::client_ranges(aws!("security-groups"), SECURITY_GROUPS, security_groups),
    Row::client_ranges(aws!("extra-security-groups"), SECURITY_GROUPS, security_groups),
    Row::unenforceable(
        aws!("security-group-prefix-lists"),
        "prefix lists of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    shared_rows::node_labels(aws!("target-node-labels")),
    Row::assigner(
        aws!("private-ipv4-addresses"),
        "requests the first IPv4 address of the list",
        AnnotationMeaning::FamilyAddress(Family::V4),
    ),
    Row::assigner(
        aws!("ipv6-addresses"),
        "requests the first IPv6 address of the list",
        AnnotationMeaning::FamilyAddress(Family::V6),
    ),
    Row::cloud_only(
        aws!("eip-allocations"),
        "address resources of the cloud; request addresses with `portolan.dev/load-balancer-ips`",
    ),
    Row::cloud_only_checked(aws!("additional-resource-tags"), TAGS, |text| {
        let has_keys = value::pairs(text).keys().all(|key| !key.is_empty());
        has_keys
            .then_some(())
            .ok_or_else(|| InvalidValue::expected("pairs such as environment=prod,owner=devops"))
    }),
    Row::cloud_only(aws!("name"), "name of the cloud resource"),
    Row::cloud_only(aws!("subnets"), NETWORK),
    Row::cloud_only(
        aws!("ip-address-type"),
        "use `spec.ipFamilies` and `spec.ipFamilyPolicy`",
    ),
    Row::cloud_only(aws!("attributes"), "attributes of cloud resources"),
    Row::cloud_only(aws!("manage-backend-security-group-rules"), NETWORK),
    Row::cloud_only(aws!("inbound-sg-rules-on-private-link-traffic"), NETWORK),
];

const SECURITY_GROUPS: &str = "ranges in the list are allowed clients, as in `load-balancer-source-ranges`; \
     a list of group identifiers alone withholds the address";

/// Predefined policies of AWS without `ELBSecurityPolicy-`: those of Classic Load Balancers, and of Application and Network
/// Load Balancers. The edge serves no version before TLS 1.2, and of TLS 1.2 only suites with ECDHE and AEAD.
const POLICIES: [(&str, TlsPolicy); 31] = [
    ("2011-08", TlsPolicy::Tls12),
    ("2014-01", TlsPolicy::Tls12),
    ("2014-10", TlsPolicy::Tls12),
    ("2015-02", TlsPolicy::Tls12),
    ("2015-03", TlsPolicy::Tls12),
    ("2015-05", TlsPolicy::Tls12),
    ("2016-08", TlsPolicy::Tls12),
    ("TLS-1-0-2015-04", TlsPolicy::Tls12),
    ("TLS-1-1-2017-01", TlsPolicy::Tls12),
    ("TLS-1-2-2017-01", TlsPolicy::Tls12),
    ("TLS-1-2-Ext-2018-06", TlsPolicy::Tls12),
    ("FS-2018-06", TlsPolicy::Tls12),
    ("FS-1-1-2019-08", TlsPolicy::Tls12),
    ("FS-1-2-2019-08", TlsPolicy::Tls12),
    ("FS-1-2-Res-2019-08", TlsPolicy::Tls12),
    ("FS-1-2-Res-2020-10", TlsPolicy::Tls12),
    ("TLS13-1-0-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-0-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-1-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-1-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-2-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-2-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Ext0-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Ext1-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Ext1-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Ext2-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Ext2-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Res-2021-06", TlsPolicy::Tls12And13),
    ("TLS13-1-2-Res-FIPS-2023-04", TlsPolicy::Tls12And13),
    ("TLS13-1-3-2021-06", TlsPolicy::Tls13),
    ("TLS13-1-3-FIPS-2023-04", TlsPolicy::Tls13),
];

/// Returns the TLS policy by the name of a predefined policy of AWS.
fn policy(text: &str) -> Result<TlsPolicy, InvalidValue> {
    let name = text.strip_prefix("ELBSecurityPolicy-");
    let found = POLICIES.iter().find(|(known, _)| Some(*known) == name);
    found.map(|(_, policy)| *policy).ok_or_else(|| {
        InvalidValue::expected(
            "the name of a predefined policy, such as ELBSecurityPolicy-TLS13-1-2-2021-06 or \
             ELBSecurityPolicy-TLS-1-2-2017-01",
        )
    })
}

/// Adds the ranges of the list. Any other element, such as the identifier of a group, is an error. It restricts clients
/// in a way that only the cloud can apply.
fn security_groups(values: &mut AnnotationValues, annotation: Annotation<'_>) -> Result<Effect, ApplyError> {
    let parts = || {
        annotation
            .value
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    let ranges: Vec<_> = parts().filter_map(value::range).collect();
    let are_all = ranges.len() == parts().count() && !ranges.is_empty();
    let effect = super::source_ranges(values, annotation.name, ranges)?;
    if !are_all {
        let expected = "ranges such as 192.0.2.0/24: groups of the cloud restrict nobody here; use spec.loadBalancerSourceRanges";
        return Err(InvalidValue::expected(expected).into());
    }
    Ok(effect)
}

/// Applies the attributes that exist outside of the cloud, and ignores the others.
fn target_group(values: &mut AnnotationValues, annotation: Annotation<'_>) -> Result<Effect, ApplyError> {
    let mut effect = Effect::Unchanged;
    let mut set_effect = |is_changed: bool| {
        if is_changed {
            effect = Effect::Changed;
        }
    };
    for (key, text) in value::pairs(annotation.value) {
        let for_key = |error: InvalidValue| error.describe(|expected| format!("{key}= with {expected}"));
        let parse_bool = || value::bool(&text).map_err(for_key);
        match key.as_str() {
            "proxy_protocol_v2.enabled" => {
                let is_enabled = parse_bool()?;
                set_effect(is_enabled);
                values
                    .proxy_protocol
                    .to_backends
                    .set(annotation, is_enabled.then_some(ProxyVersion::V2))?;
            }
            "deregistration_delay.timeout_seconds" => {
                let timeout = seconds(&text, 0..=3_600).map_err(for_key)?;
                values.timeouts.is_draining.set(annotation, !timeout.is_zero())?;
                values.timeouts.draining.set(annotation, timeout)?;
            }
            "stickiness.enabled" => {
                let is_sticky = parse_bool()?;
                set_effect(is_sticky);
                let mode = if is_sticky {
                    StickyMode::Source
                } else {
                    StickyMode::Off
                };
                values.stickiness.mode.set(annotation, mode)?;
            }
            "load_balancing.cross_zone.enabled" => {
                let is_cross_zone = keyword(
                    &text,
                    &[
                        ("true", true),
                        ("false", false),
                        ("use_load_balancer_configuration", true),
                    ],
                )
                .map_err(for_key)?;
                set_effect(!is_cross_zone);
                values.is_cross_zone.set(annotation, is_cross_zone)?;
            }
            _ => {}
        }
    }
    Ok(effect)
}
