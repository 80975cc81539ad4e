//! AWS: the classic balancer and the network balancer, as the in-tree provider, cloud-provider-aws and the AWS Load
//! Balancer Controller read them.

use edge::settings::{Alpn, ProxyVersion, TlsPolicy};
use ipam::pools::Family;

use super::{Place, alike};
use crate::annotations::asked::{Asked, Asks, Speaks, Sticks};
use crate::annotations::row::{Effect, Field, Means, Refusal, Remedy, Row};
use crate::annotations::value::{self, minutes, number, seconds, word};

macro_rules! aws {
    ($name:literal) => {
        concat!("service.beta.kubernetes.io/aws-load-balancer-", $name)
    };
}

pub(super) const PLACE: Place = Place {
    name: "AWS",
    prefixes: &["service.beta.kubernetes.io/aws-load-balancer-"],
    rows: ROWS,
};

const TAGS: &str = "tags of cloud resources";
const NETWORK: &str = "networks of the cloud";

const ROWS: &[Row] = &[
    Row::scope(aws!("internal"), &["true", "0.0.0.0/0"], &["false"]),
    Row::scope(aws!("scheme"), &["internal"], &["internet-facing"]),
    Row::tunes(
        aws!("type"),
        "`nlb` and other values forward packets: timeouts, draining and health checks alone do not select the edge",
        |asked, field| {
            let kinds = ["nlb", "nlb-ip", "external"].map(|kind| (kind, true));
            let passes_packets = word(field.text, &kinds)?;
            asked.proxy_version.put(field, ProxyVersion::V2)?;
            asked.passes_packets.put(field, passes_packets)
        },
    ),
    Row::tunes(
        aws!("nlb-target-type"),
        "type of targets; endpoints are always contacted directly",
        |_, field| {
            word(field.text, &[("instance", Effect::Plain), ("ip", Effect::Plain)]).map_err(Refusal::Value)
        },
    ),
    alike::certificates(aws!("ssl-cert")),
    Row::tunes(
        aws!("ssl-ports"),
        "ports that terminate TLS: `*`, names or numbers",
        |asked, field| asked.tls_ports.put(field, value::ports(field.text)?),
    ),
    Row::hard(
        aws!("backend-protocol"),
        "protocol of backends; with a certificate also that of clients",
        |asked, field| {
            let protocols = [
                ("tcp", Speaks::Tcp),
                ("ssl", Speaks::Ssl),
                ("http", Speaks::Http),
                ("https", Speaks::Https),
            ];
            let speaks = word(field.text, &protocols)?;
            asked.backends_speak.put(field, speaks)?;
            // Without a certificate only http makes a difference.
            Ok(match speaks {
                Speaks::Http => Effect::More,
                _ => Effect::Plain,
            })
        },
    ),
    Row::tunes(
        aws!("ssl-negotiation-policy"),
        "versions of TLS: policies with `TLS13` in their names include 1.3, all others are 1.2 only",
        |asked, field| asked.tls_policy.put(field, policy(field.text)?),
    ),
    Row::tunes(
        aws!("alpn-policy"),
        "ALPN policy; default: h2 and http/1.1 where the edge serves HTTP, otherwise none",
        |asked, field| {
            let policies = [
                ("HTTP1Only", Alpn::Http1Only),
                ("HTTP2Only", Alpn::Http2Only),
                ("HTTP2Optional", Alpn::Http2Optional),
                ("HTTP2Preferred", Alpn::Http2Preferred),
                ("None", Alpn::Never),
            ];
            asked.alpn.put(field, word(field.text, &policies)?)
        },
    ),
    Row::hard(
        aws!("proxy-protocol"),
        "PROXY header for backends: version 1, with type `nlb` version 2",
        |asked, field| {
            let version = word(field.text, &[("*", ProxyVersion::V1)])?;
            asked.proxy_to_backends.put(field, Some(version))
        },
    ),
    Row::hard(
        aws!("access-log-enabled"),
        "enable the access log",
        |asked, field| asked.is_logged.put_unless(field, value::bool(field.text)?, false),
    ),
    Row::tunes(
        aws!("access-log-emit-interval"),
        "minutes of lines in a file; default 60",
        |asked, field| {
            let allowed = "minutes, 5 or 60";
            let interval = minutes(field.text, 1..=60)
                .ok()
                .filter(|m| [300, 3_600].contains(&m.as_secs()));
            asked
                .log_interval
                .put(field, interval.ok_or_else(|| allowed.to_owned())?)
        },
    ),
    Row::tunes(
        aws!("access-log-s3-bucket-name"),
        "bucket; without S3, a directory of that name",
        |asked, field| asked.log_bucket.put(field, value::bucket(field.text)?),
    ),
    Row::tunes(
        aws!("access-log-s3-bucket-prefix"),
        "name prefix of the files",
        |asked, field| asked.log_prefix.put(field, value::log_prefix(field.text)?),
    ),
    Row::soft(
        aws!("connection-draining-enabled"),
        "draining of connections to a removed backend; `false` closes them at once",
        |asked, field| asked.drains.put_unless(field, value::bool(field.text)?, false),
    ),
    Row::tunes(
        aws!("connection-draining-timeout"),
        "draining time, 1 to 3600 seconds; default 300",
        |asked, field| asked.draining_timeout.put(field, seconds(field.text, 1..=3_600)?),
    ),
    Row::soft(
        aws!("connection-idle-timeout"),
        "idle timeout, 1 to 4000 seconds; default 60",
        |asked, field| asked.idle_timeout.put(field, seconds(field.text, 1..=4_000)?),
    ),
    Row::hard(
        aws!("cross-zone-load-balancing-enabled"),
        "`false` prefers backends in the zone of the edge; default `true`",
        |asked, field| {
            asked
                .is_cross_zone
                .put_unless(field, value::bool(field.text)?, true)
        },
    ),
    Row::soft(
        aws!("healthcheck-protocol"),
        "protocol of health checks",
        |asked, field| {
            let protocols = [
                ("TCP", Asks::Tcp),
                ("SSL", Asks::Ssl),
                ("HTTP", Asks::Http),
                ("HTTPS", Asks::Https),
            ];
            asked.check.put(field, word(field.text, &protocols)?)
        },
    ),
    Row::soft(
        aws!("healthcheck-port"),
        "port of health checks: `traffic-port` or a number",
        |asked, field| {
            if field.text == "traffic-port" {
                return asked.check_port.put_unless(field, None, None);
            }
            let port = value::port(field.text).map_err(|allowed| format!("traffic-port or {allowed}"))?;
            asked.check_port.put(field, Some(port))
        },
    ),
    Row::soft(
        aws!("healthcheck-path"),
        "path of the health check; default `/`",
        |asked, field| asked.check_path.put(field, value::path(field.text)?),
    ),
    Row::soft(
        aws!("healthcheck-healthy-threshold"),
        "successes until a backend is healthy, 2 to 10; default 2",
        |asked, field| asked.check_healthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::soft(
        aws!("healthcheck-unhealthy-threshold"),
        "failures until a backend is unhealthy, 2 to 10; default 6",
        |asked, field| asked.check_unhealthy.put(field, number(field.text, 2..=10)?),
    ),
    Row::soft(
        aws!("healthcheck-timeout"),
        "timeout of a health check, 2 to 120 seconds and at most the interval; default 5",
        |asked, field| asked.check_timeout.put(field, seconds(field.text, 2..=120)?),
    ),
    Row::soft(
        aws!("healthcheck-interval"),
        "interval of health checks, 5 to 300 seconds; default 10",
        |asked, field| asked.check_interval.put(field, seconds(field.text, 5..=300)?),
    ),
    Row::tunes(
        aws!("healthcheck-success-codes"),
        "statuses of a healthy backend; default 200-399",
        |asked, field| asked.check_statuses.put(field, value::statuses(field.text)?),
    ),
    Row::hard(
        aws!("target-group-attributes"),
        "`proxy_protocol_v2.enabled`, `deregistration_delay.timeout_seconds`, `stickiness.enabled`, \
         `load_balancing.cross_zone.enabled`",
        target_group,
    ),
    Row::restricts(aws!("security-groups"), SECURITY_GROUPS, security_groups),
    Row::restricts(aws!("extra-security-groups"), SECURITY_GROUPS, security_groups),
    Row::unenforceable(
        aws!("security-group-prefix-lists"),
        "prefix lists of the cloud; use `spec.loadBalancerSourceRanges`",
        Remedy::Ranges,
    ),
    alike::node_labels(aws!("target-node-labels")),
    Row::assigner(
        aws!("private-ipv4-addresses"),
        "requests the first IPv4 address of the list",
        Means::AddressOf(Family::V4),
    ),
    Row::assigner(
        aws!("ipv6-addresses"),
        "requests the first IPv6 address of the list",
        Means::AddressOf(Family::V6),
    ),
    Row::nothing(
        aws!("eip-allocations"),
        "address resources of the cloud; request addresses with `portolan.dev/load-balancer-ips`",
    ),
    Row::checked(aws!("additional-resource-tags"), TAGS, |text| {
        let has_keys = value::pairs(text).keys().all(|key| !key.is_empty());
        has_keys
            .then_some(())
            .ok_or_else(|| "pairs such as environment=prod,owner=devops".to_owned())
    }),
    Row::nothing(aws!("name"), "name of the cloud resource"),
    Row::nothing(aws!("subnets"), NETWORK),
    Row::nothing(
        aws!("ip-address-type"),
        "use `spec.ipFamilies` and `spec.ipFamilyPolicy`",
    ),
    Row::nothing(aws!("attributes"), "attributes of cloud resources"),
    Row::nothing(aws!("manage-backend-security-group-rules"), NETWORK),
    Row::nothing(aws!("inbound-sg-rules-on-private-link-traffic"), NETWORK),
];

const SECURITY_GROUPS: &str = "ranges in the list are allowed clients, as in `load-balancer-source-ranges`; \
     a list of group identifiers alone withholds the address";

/// The predefined policies all begin so.
fn policy(text: &str) -> Result<TlsPolicy, String> {
    let allowed = || "a predefined policy, such as ELBSecurityPolicy-TLS13-1-2-2021-06 or ELBSecurityPolicy-TLS-1-2-2017-01";
    let name = text
        .strip_prefix("ELBSecurityPolicy-")
        .filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| allowed().to_owned())?;
    Ok(match name.strip_prefix("TLS13-") {
        Some(rest) if rest.starts_with("1-3") => TlsPolicy::Tls13,
        Some(_) => TlsPolicy::Tls12And13,
        None => TlsPolicy::Tls12,
    })
}

/// Ranges count; what is known to the cloud alone is a mistake that must be seen, since it was meant to restrict.
fn security_groups(asked: &mut Asked, field: Field<'_>) -> Result<Effect, Refusal> {
    let parts = || {
        field
            .text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    let ranges: Vec<_> = parts().filter_map(value::range).collect();
    let are_all = ranges.len() == parts().count() && !ranges.is_empty();
    let effect = super::source_ranges(asked, field.name, ranges)?;
    if !are_all {
        return Err(Refusal::Value(
            "ranges such as 192.0.2.0/24: groups are the cloud's and restrict nobody here; use spec.loadBalancerSourceRanges"
                .to_owned(),
        ));
    }
    Ok(effect)
}

/// Attributes that mean something here; the others are of the cloud's resources.
fn target_group(asked: &mut Asked, field: Field<'_>) -> Result<Effect, Refusal> {
    let mut effect = Effect::Plain;
    let mut on = |is_on: bool| {
        if is_on {
            effect = Effect::More;
        }
    };
    for (key, text) in value::pairs(field.text) {
        let truth = || value::bool(&text).map_err(|allowed| format!("{key}= with {allowed}"));
        match key.as_str() {
            "proxy_protocol_v2.enabled" => {
                let is_spoken = truth()?;
                on(is_spoken);
                asked
                    .proxy_to_backends
                    .put(field, is_spoken.then_some(ProxyVersion::V2))?;
            }
            "deregistration_delay.timeout_seconds" => {
                let timeout =
                    seconds(&text, 0..=3_600).map_err(|allowed| format!("{key}= with {allowed}"))?;
                asked.drains.put(field, !timeout.is_zero())?;
                asked.draining_timeout.put(field, timeout)?;
            }
            "stickiness.enabled" => {
                let is_sticky = truth()?;
                on(is_sticky);
                let sticks = if is_sticky {
                    Sticks::BySource
                } else {
                    Sticks::Never
                };
                asked.sticks.put(field, sticks)?;
            }
            "load_balancing.cross_zone.enabled" => {
                let is_cross_zone = word(
                    &text,
                    &[
                        ("true", true),
                        ("false", false),
                        ("use_load_balancer_configuration", true),
                    ],
                )
                .map_err(|allowed| format!("{key}= with {allowed}"))?;
                on(!is_cross_zone);
                asked.is_cross_zone.put(field, is_cross_zone)?;
            }
            _ => {}
        }
    }
    Ok(effect)
}
