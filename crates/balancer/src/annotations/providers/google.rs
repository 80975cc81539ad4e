//! Annotations of Google Cloud. Its network load balancers forward packets, so none of them needs the edge.

use super::Provider;
use crate::annotations::row::Row;

pub(super) const PROVIDER: Provider = Provider {
    name: "Google",
    prefixes: &[
        "networking.gke.io/load-balancer-",
        "networking.gke.io/internal-load-balancer-",
    ],
    rows: ROWS,
};

const NETWORK: &str = "networks of the cloud";

const ROWS: &[Row] = &[
    Row::scope(
        "networking.gke.io/load-balancer-type",
        &["Internal"],
        &["External"],
    ),
    Row::scope(
        "cloud.google.com/load-balancer-type",
        &["Internal"],
        &["External"],
    ),
    Row::cloud_only(
        "networking.gke.io/internal-load-balancer-allow-global-access",
        NETWORK,
    ),
    Row::cloud_only("networking.gke.io/internal-load-balancer-subnet", NETWORK),
    Row::cloud_only(
        "networking.gke.io/load-balancer-ip-addresses",
        "address resources of the cloud; request addresses with `portolan.dev/load-balancer-ips`",
    ),
    Row::cloud_only("cloud.google.com/network-tier", NETWORK),
    Row::cloud_only("cloud.google.com/l4-rbs", "type of the cloud load balancer"),
    Row::cloud_only("cloud.google.com/neg", "endpoint groups of the cloud"),
    Row::cloud_only(
        "cloud.google.com/backend-config",
        "settings of the cloud's Ingress",
    ),
    Row::cloud_only(
        "cloud.google.com/app-protocols",
        "settings of the cloud's Ingress",
    ),
];
