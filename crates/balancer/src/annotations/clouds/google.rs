//! Google: its network balancers pass packets on, so nothing of theirs needs the edge.

use super::Place;
use crate::annotations::row::Row;

pub(super) const PLACE: Place = Place {
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
    Row::nothing(
        "networking.gke.io/internal-load-balancer-allow-global-access",
        NETWORK,
    ),
    Row::nothing("networking.gke.io/internal-load-balancer-subnet", NETWORK),
    Row::nothing(
        "networking.gke.io/load-balancer-ip-addresses",
        "address resources of the cloud; request addresses with `portolan.dev/load-balancer-ips`",
    ),
    Row::nothing("cloud.google.com/network-tier", NETWORK),
    Row::nothing("cloud.google.com/l4-rbs", "type of the cloud load balancer"),
    Row::nothing("cloud.google.com/neg", "endpoint groups of the cloud"),
    Row::nothing(
        "cloud.google.com/backend-config",
        "settings of the cloud's Ingress",
    ),
    Row::nothing(
        "cloud.google.com/app-protocols",
        "settings of the cloud's Ingress",
    ),
];
