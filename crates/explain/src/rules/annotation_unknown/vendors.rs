//! Annotations of Services that other implementations read.

use crate::facts::similar_names::edit_distance;

/// Domains with their annotations. Further names of these domains can exist. A name is therefore reported only if it
/// resembles a listed one.
const KNOWN: [(&str, &[&str]); 20] = [
    ("metallb.io", &METALLB),
    ("metallb.universe.tf", &METALLB),
    (
        "service.kubernetes.io",
        &["topology-mode", "topology-aware-hints"],
    ),
    ("service.beta.kubernetes.io", &BETA),
    ("cloud.google.com", &GOOGLE_CLOUD),
    ("networking.gke.io", &GKE),
    ("load-balancer.hetzner.cloud", &HETZNER),
    ("loadbalancer.openstack.org", &OPENSTACK),
    ("oci.oraclecloud.com", &OCI),
    ("oci-network-load-balancer.oraclecloud.com", &OCI_NETWORK),
    (
        "lbipam.cilium.io",
        &[
            "ips",
            "sharing-key",
            "sharing-cross-namespace",
            "ip-family",
            "shared-key",
        ],
    ),
    (
        "io.cilium",
        &[
            "lb-ipam-ips",
            "lb-ipam-sharing-key",
            "global-service",
            "shared-service",
            "service-affinity",
        ],
    ),
    ("service.cilium.io", &CILIUM),
    (
        "kube-vip.io",
        &[
            "loadbalancerIPs",
            "loadbalancerHostname",
            "ignore",
            "egress",
            "serviceInterface",
        ],
    ),
    ("external-dns.alpha.kubernetes.io", &EXTERNAL_DNS),
    ("prometheus.io", &PROMETHEUS),
    ("traefik.ingress.kubernetes.io", &TRAEFIK),
    (
        "service.portolan.dev",
        &[
            "scheduler",
            "drain-seconds",
            "port-ranges",
            "keep-unready-flows",
            "max-connection-age-seconds",
            "rebalance-percent",
            "egress",
            "two-tier-forwarding",
            "two-tier-forwarding-from-pool",
        ],
    ),
    ("networking.istio.io", &["exportTo", "traffic-distribution"]),
    (
        "tailscale.com",
        &[
            "expose",
            "hostname",
            "tags",
            "tailnet-fqdn",
            "tailnet-ip",
            "proxy-class",
        ],
    ),
];
const METALLB: [&str; 4] = [
    "loadBalancerIPs",
    "address-pool",
    "allow-shared-ip",
    "ip-allocated-from-pool",
];
const BETA: [&str; 119] = [
    "load-balancer-source-ranges",
    "external-traffic",
    "healthcheck-nodeport",
    "aws-load-balancer-access-log-emit-interval",
    "aws-load-balancer-access-log-enabled",
    "aws-load-balancer-access-log-s3-bucket-name",
    "aws-load-balancer-access-log-s3-bucket-prefix",
    "aws-load-balancer-additional-resource-tags",
    "aws-load-balancer-alpn-policy",
    "aws-load-balancer-attributes",
    "aws-load-balancer-backend-protocol",
    "aws-load-balancer-connection-draining-enabled",
    "aws-load-balancer-connection-draining-timeout",
    "aws-load-balancer-connection-idle-timeout",
    "aws-load-balancer-cross-zone-load-balancing-enabled",
    "aws-load-balancer-eip-allocations",
    "aws-load-balancer-enable-icmp-for-path-mtu-discovery",
    "aws-load-balancer-enable-prefix-for-ipv6-source-nat",
    "aws-load-balancer-enable-tcp-udp-listener",
    "aws-load-balancer-extra-security-groups",
    "aws-load-balancer-healthcheck-healthy-threshold",
    "aws-load-balancer-healthcheck-interval",
    "aws-load-balancer-healthcheck-path",
    "aws-load-balancer-healthcheck-port",
    "aws-load-balancer-healthcheck-protocol",
    "aws-load-balancer-healthcheck-success-codes",
    "aws-load-balancer-healthcheck-timeout",
    "aws-load-balancer-healthcheck-unhealthy-threshold",
    "aws-load-balancer-inbound-sg-rules-on-private-link-traffic",
    "aws-load-balancer-internal",
    "aws-load-balancer-ip-address-type",
    "aws-load-balancer-ipv6-addresses",
    "aws-load-balancer-listener-attributes",
    "aws-load-balancer-manage-backend-security-group-rules",
    "aws-load-balancer-minimum-load-balancer-capacity",
    "aws-load-balancer-multi-cluster-target-group",
    "aws-load-balancer-name",
    "aws-load-balancer-nlb-shield-advanced-protection",
    "aws-load-balancer-nlb-target-type",
    "aws-load-balancer-private-ipv4-addresses",
    "aws-load-balancer-proxy-protocol",
    "aws-load-balancer-proxy-protocol-per-target-group",
    "aws-load-balancer-scheme",
    "aws-load-balancer-security-group-prefix-lists",
    "aws-load-balancer-security-groups",
    "aws-load-balancer-source-nat-ipv6-prefixes",
    "aws-load-balancer-ssl-cert",
    "aws-load-balancer-ssl-negotiation-policy",
    "aws-load-balancer-ssl-ports",
    "aws-load-balancer-subnets",
    "aws-load-balancer-target-group-attributes",
    "aws-load-balancer-target-node-labels",
    "aws-load-balancer-type",
    "azure-additional-public-ips",
    "azure-allowed-ip-ranges",
    "azure-allowed-service-tags",
    "azure-deny-all-except-load-balancer-source-ranges",
    "azure-disable-load-balancer-floating-ip",
    "azure-dns-label-name",
    "azure-load-balancer-configurations",
    "azure-load-balancer-disable-tcp-reset",
    "azure-load-balancer-enable-high-availability-ports",
    "azure-load-balancer-health-probe-interval",
    "azure-load-balancer-health-probe-num-of-probe",
    "azure-load-balancer-health-probe-protocol",
    "azure-load-balancer-health-probe-request-path",
    "azure-load-balancer-internal",
    "azure-load-balancer-internal-subnet",
    "azure-load-balancer-ipv4",
    "azure-load-balancer-ipv6",
    "azure-load-balancer-mode",
    "azure-load-balancer-resource-group",
    "azure-load-balancer-tcp-idle-timeout",
    "azure-pip-ip-tags",
    "azure-pip-name",
    "azure-pip-name-ipv6",
    "azure-pip-prefix-id",
    "azure-pip-prefix-id-ipv6",
    "azure-pip-tags",
    "azure-pls-auto-approval",
    "azure-pls-create",
    "azure-pls-fqdns",
    "azure-pls-ip-configuration-ip-address",
    "azure-pls-ip-configuration-ip-address-count",
    "azure-pls-ip-configuration-subnet",
    "azure-pls-name",
    "azure-pls-proxy-protocol",
    "azure-pls-resource-group",
    "azure-pls-visibility",
    "azure-shared-securityrule",
    "do-loadbalancer-algorithm",
    "do-loadbalancer-allow-rules",
    "do-loadbalancer-certificate-id",
    "do-loadbalancer-deny-rules",
    "do-loadbalancer-enable-backend-keepalive",
    "do-loadbalancer-enable-proxy-protocol",
    "do-loadbalancer-healthcheck-path",
    "do-loadbalancer-healthcheck-port",
    "do-loadbalancer-healthcheck-protocol",
    "do-loadbalancer-hostname",
    "do-loadbalancer-http-ports",
    "do-loadbalancer-name",
    "do-loadbalancer-protocol",
    "do-loadbalancer-redirect-http-to-https",
    "do-loadbalancer-size-slug",
    "do-loadbalancer-size-unit",
    "do-loadbalancer-sticky-sessions-type",
    "do-loadbalancer-tls-passthrough",
    "do-loadbalancer-tls-ports",
    "do-loadbalancer-type",
    "oci-load-balancer-backend-protocol",
    "oci-load-balancer-internal",
    "oci-load-balancer-shape",
    "oci-load-balancer-shape-flex-max",
    "oci-load-balancer-shape-flex-min",
    "oci-load-balancer-ssl-ports",
    "oci-load-balancer-subnet1",
    "oci-load-balancer-tls-secret",
    "openstack-internal-load-balancer",
];
const GOOGLE_CLOUD: [&str; 8] = [
    "neg",
    "neg-status",
    "backend-config",
    "app-protocols",
    "load-balancer-type",
    "l4-rbs",
    "network-tier",
    "psc-service-attachment",
];
const GKE: [&str; 7] = [
    "load-balancer-type",
    "internal-load-balancer-allow-global-access",
    "internal-load-balancer-subnet",
    "load-balancer-ip-addresses",
    "load-balancer-subnet",
    "weighted-load-balancing",
    "managed-certificates",
];
const HETZNER: [&str; 14] = [
    "name",
    "location",
    "network-zone",
    "type",
    "algorithm-type",
    "disable-private-ingress",
    "disable-public-network",
    "use-private-ip",
    "hostname",
    "protocol",
    "uses-proxyprotocol",
    "http-redirect-http",
    "http-certificates",
    "health-check-protocol",
];
const OPENSTACK: [&str; 14] = [
    "class",
    "connection-limit",
    "enable-health-monitor",
    "flavor-id",
    "floating-network-id",
    "floating-subnet",
    "floating-subnet-id",
    "keep-floatingip",
    "lb-method",
    "load-balancer-id",
    "network-id",
    "proxy-protocol",
    "subnet-id",
    "x-forwarded-for",
];
const OCI: [&str; 6] = [
    "load-balancer-type",
    "security-rule-management-mode",
    "oci-network-security-groups",
    "oci-load-balancer-listener-ssl-config",
    "oci-load-balancer-backendset-ssl-config",
    "initial-defined-tags-override",
];
const OCI_NETWORK: [&str; 4] = [
    "internal",
    "subnet",
    "backend-policy",
    "security-list-management-mode",
];
const CILIUM: [&str; 9] = [
    "global",
    "shared",
    "affinity",
    "type",
    "lb-l7",
    "node",
    "src-ranges-policy",
    "forwarding-mode",
    "lb-algorithm",
];
const EXTERNAL_DNS: [&str; 10] = [
    "hostname",
    "internal-hostname",
    "target",
    "ttl",
    "access",
    "alias",
    "controller",
    "endpoints-type",
    "set-identifier",
    "cloudflare-proxied",
];
const PROMETHEUS: [&str; 8] = [
    "scrape", "port", "path", "scheme", "probe", "param", "interval", "job",
];
const TRAEFIK: [&str; 9] = [
    "service.nativelb",
    "service.passhostheader",
    "service.serversscheme",
    "service.serverstransport",
    "service.sticky.cookie",
    "service.sticky.cookie.httponly",
    "service.sticky.cookie.name",
    "service.sticky.cookie.samesite",
    "service.sticky.cookie.secure",
];

/// Annotations with a closed set of values, which are compared without case.
const VALUES: [(&str, &[&str]); 5] = [
    (
        "service.beta.kubernetes.io/aws-load-balancer-scheme",
        &["internal", "internet-facing"],
    ),
    (
        "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type",
        &["instance", "ip"],
    ),
    (
        "service.beta.kubernetes.io/azure-load-balancer-internal",
        &["true", "false"],
    ),
    ("networking.gke.io/load-balancer-type", &["Internal", "External"]),
    ("cloud.google.com/load-balancer-type", &["Internal", "External"]),
];

/// Maximum number of characters in which a misspelled name differs from the right one.
const DISTANCE_MAX: usize = 2;

/// Returns the name that an unknown name resembles. `None` if the name is known, or resembles none.
pub(super) fn intended_name(name: &str) -> Option<String> {
    let (domain, suffix) = name.split_once('/')?;
    let is_known = KNOWN
        .iter()
        .any(|(known, suffixes)| *known == domain && suffixes.contains(&suffix));
    if is_known {
        return None;
    }
    let same_domain = KNOWN.iter().find(|(known, _)| *known == domain);
    let similar = same_domain.and_then(|(_, suffixes)| {
        let similar = suffixes.iter().filter(|known| is_misspelling(suffix, known));
        similar.min_by_key(|known| edit_distance(suffix, known))
    });
    if let Some(similar) = similar {
        return Some(format!("{domain}/{similar}"));
    }
    let other_stage = KNOWN.iter().find(|(known, suffixes)| {
        *known != domain && without_stage(known) == without_stage(domain) && suffixes.contains(&suffix)
    });
    other_stage.map(|(known, _)| format!("{known}/{suffix}"))
}

/// Returns the accepted values of an annotation whose value is none of them.
pub(super) fn accepted_values(name: &str, value: &str) -> Option<&'static [&'static str]> {
    let (_, values) = VALUES.iter().find(|(known, _)| *known == name)?;
    let is_accepted = values
        .iter()
        .any(|accepted| accepted.eq_ignore_ascii_case(value.trim()));
    (!is_accepted).then_some(values)
}

/// Returns true if a name is a misspelling of another one, and not a name of another vendor or family.
fn is_misspelling(name: &str, known: &str) -> bool {
    let vendor = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    let without_digits = |name: &str| name.replace(|character: char| character.is_ascii_digit(), "");
    let plain = |name: &str| name.replace(['-', '_', '.'], "").to_ascii_lowercase();
    let limit = if vendor(name) == vendor(known) {
        DISTANCE_MAX
    } else {
        1
    };
    let difference = edit_distance(&name.to_ascii_lowercase(), &known.to_ascii_lowercase());
    let is_near = difference <= limit.min(known.len() / 3);
    plain(name) == plain(known) || is_near && without_digits(name) != without_digits(known)
}

/// Returns a domain without the label of a stage, such as `beta`.
fn without_stage(domain: &str) -> String {
    let labels = domain
        .split('.')
        .filter(|label| !matches!(*label, "alpha" | "beta"));
    labels.collect::<Vec<_>>().join(".")
}
