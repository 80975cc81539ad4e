//! Content of a drawing: selected Services, sections, nodes and their health.

use api::object::ObjectKey;
use jiff::Timestamp;

use crate::view::detail::ServiceDetail;
use crate::view::endpoints::EndpointRow;
use crate::view::model::Model;
use crate::view::rows::{FrontendKind, Health, ServiceRow, Totals};
use crate::view::traffic::{ClientKind, ClientRow};

/// Maximum number of Services of a drawing: a larger one is not readable.
pub const SERVICES_MAX: usize = 60;
/// Maximum number of endpoints of a Service.
pub const ENDPOINTS_MAX: usize = 24;
/// Maximum number of frontends of a Service.
pub const FRONTENDS_MAX: usize = 8;
/// Maximum number of clients of a Service.
pub const CLIENTS_MAX: usize = 6;

/// Services to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// All Services.
    #[default]
    All,
    /// Services of a namespace.
    Namespace(String),
    /// One Service.
    Service(ObjectKey),
}

/// Content of a drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Name of the cluster or of the input.
    pub cluster: String,
    /// Time of the state; absent for files.
    pub time: Option<Timestamp>,
    /// Sums of the cluster.
    pub totals: Totals,
    /// Services, those with faults first.
    pub services: Vec<Section>,
    /// Number of selected Services that are left out.
    pub services_omitted: usize,
}

/// A Service with its clients, frontends and endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Row of the Service.
    pub row: ServiceRow,
    /// Clients that can, or do, connect.
    pub clients: Vec<Origin>,
    /// Number of clients that are left out.
    pub clients_omitted: usize,
    /// Title of each frontend, with its kind.
    pub frontends: Vec<(FrontendKind, String)>,
    /// Number of frontends that are left out.
    pub frontends_omitted: usize,
    /// Endpoints by zone and node, both by name.
    pub places: Vec<NodeEndpoints>,
    /// Number of endpoints that are left out.
    pub endpoints_omitted: usize,
}

/// Clients of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Human-readable name.
    pub title: String,
    /// Open connections, if flows are known.
    pub connections: Option<u64>,
    /// True if the clients are outside of the cluster.
    pub is_external: bool,
}

/// Endpoints on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEndpoints {
    /// Zone, or "".
    pub zone: String,
    /// Node, or "".
    pub node: String,
    /// True if the node is ready, or unknown.
    pub is_ready: bool,
    /// Endpoints.
    pub endpoints: Vec<EndpointRow>,
}

/// Returns the name of the state of an endpoint.
pub fn state(endpoint: &EndpointRow) -> &'static str {
    match (endpoint.terminating, endpoint.ready) {
        (true, _) => "terminating",
        (false, true) => "ready",
        (false, false) => "not ready",
    }
}

/// Returns the health of an endpoint.
pub fn health(endpoint: &EndpointRow) -> Health {
    match (endpoint.terminating, endpoint.ready) {
        (true, _) => Health::Idle,
        (false, true) => Health::Ok,
        (false, false) => Health::Error,
    }
}

/// Returns the symbol of a health, for readers who do not distinguish colours.
pub fn symbol(health: Health) -> &'static str {
    match health {
        Health::Error => "✕",
        Health::Warning => "▲",
        Health::Ok => "●",
        Health::Idle => "○",
    }
}

/// Returns the human-readable name of a place.
pub fn place_title(place: &NodeEndpoints) -> String {
    let node = if place.node.is_empty() {
        "outside of the nodes"
    } else {
        place.node.as_str()
    };
    let zone = if place.zone.is_empty() {
        String::new()
    } else {
        format!(" · {}", place.zone)
    };
    let state = if place.is_ready { "" } else { " · not ready" };
    format!("{node}{zone}{state}")
}

/// Returns the selected Services of a model.
pub fn picture(model: &Model, selection: &Selection, now: Option<Timestamp>) -> Picture {
    let snapshot = model.snapshot(now.unwrap_or(Timestamp::UNIX_EPOCH));
    let is_selected = |key: &&ObjectKey| match selection {
        Selection::All => true,
        Selection::Namespace(namespace) => *key.namespace == **namespace,
        Selection::Service(service) => *key == service,
    };
    let keys = model.service_keys().filter(is_selected);
    let mut ordered: Vec<(Health, &ObjectKey)> = keys
        .filter_map(|key| Some((model.row(key)?.shape.health, key)))
        .collect();
    // Faults come first where not everything fits.
    ordered.sort_by(|(a, key_a), (b, key_b)| b.cmp(a).then_with(|| key_a.cmp(key_b)));
    let services_omitted = ordered.len().saturating_sub(SERVICES_MAX);
    ordered.truncate(SERVICES_MAX);
    let details = ordered.into_iter().filter_map(|(_, key)| model.detail(key));
    let services = details.map(|detail| section(model, detail)).collect();
    Picture {
        cluster: snapshot.cluster.to_string(),
        time: now,
        totals: snapshot.totals,
        services,
        services_omitted,
    }
}

fn section(model: &Model, detail: ServiceDetail) -> Section {
    let (clients, clients_omitted) = clients(&detail);
    let shape = &detail.row.shape;
    let frontends = shape.frontends.iter().take(FRONTENDS_MAX);
    let frontends = frontends.map(|frontend| {
        let address = match (frontend.kind, frontend.address.as_str()) {
            (FrontendKind::NodePort, _) => "nodes".to_owned(),
            (_, address) if address.contains(':') => format!("[{address}]"),
            (_, address) => address.to_owned(),
        };
        let title = match frontend.port {
            0 => address,
            port => format!("{address}:{port}/{}", frontend.protocol),
        };
        (frontend.kind, title)
    });
    let frontends: Vec<(FrontendKind, String)> = frontends.collect();
    let shown = detail.endpoints.len().min(ENDPOINTS_MAX);
    Section {
        clients,
        clients_omitted,
        frontends_omitted: shape.frontends.len() - frontends.len(),
        frontends,
        endpoints_omitted: detail.endpoints.len() - shown + detail.endpoints_omitted,
        places: nodes_with_endpoints(model, detail.endpoints.into_iter().take(shown)),
        row: detail.row,
    }
}

/// Returns the busiest clients, or else those that the frontends permit.
fn clients(detail: &ServiceDetail) -> (Vec<Origin>, usize) {
    if !detail.clients.is_empty() {
        let shown = detail.clients.iter().take(CLIENTS_MAX).map(origin);
        return (shown.collect(), detail.clients.len().saturating_sub(CLIENTS_MAX));
    }
    let kinds = detail.row.shape.frontends.iter().map(|frontend| frontend.kind);
    let has_external = kinds.into_iter().any(FrontendKind::is_external);
    let of = |title: &str, is_external| Origin {
        title: title.to_owned(),
        connections: None,
        is_external,
    };
    let mut origins = vec![of("Pods and nodes", false)];
    if has_external {
        origins.push(of("hosts outside", true));
    }
    (origins, 0)
}

fn origin(client: &ClientRow) -> Origin {
    Origin {
        title: match client.name.as_str() {
            "" => client.address.clone(),
            name => name.to_owned(),
        },
        connections: Some(client.traffic.connections),
        is_external: client.kind == ClientKind::External,
    }
}

fn nodes_with_endpoints(model: &Model, endpoints: impl Iterator<Item = EndpointRow>) -> Vec<NodeEndpoints> {
    let mut places: Vec<NodeEndpoints> = Vec::new();
    for endpoint in endpoints {
        let known = places
            .iter_mut()
            .find(|place| place.node == endpoint.node && place.zone == endpoint.zone);
        match known {
            Some(place) => place.endpoints.push(endpoint),
            None => places.push(NodeEndpoints {
                zone: endpoint.zone.clone(),
                node: endpoint.node.clone(),
                is_ready: model
                    .objects()
                    .node(&endpoint.node)
                    .is_none_or(|node| node.is_ready()),
                endpoints: vec![endpoint],
            }),
        }
    }
    places.sort_by(|a, b| (&a.zone, &a.node).cmp(&(&b.zone, &b.node)));
    places
}
