//! State of load balancing in the API. Each kind is read separately: a user without rights for one sees the others.

use std::collections::BTreeMap;

use api::object::{AddressPool, Lease, Resource, Service};
use client::{Client, ClientError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Lease of the assigner.
const ASSIGNER: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-balancer";
/// Events of announcers that acquired an address.
const ANNOUNCEMENT_EVENTS: &str = "/api/v1/events?fieldSelector=reason%3DnodeAssigned";

/// Value, or the reason for its absence.
pub(super) type QueryResult<T> = Result<T, String>;

/// State of load balancing in the API.
#[derive(Clone, Debug)]
pub(super) struct ApiState {
    /// Services of type LoadBalancer.
    pub services: QueryResult<Vec<Service>>,
    /// AddressPools of the cluster.
    pub pools: QueryResult<Vec<AddressPool>>,
    /// Lease of the assigner, if there is an election.
    pub assigner: QueryResult<Option<Lease>>,
    /// Last announcing node of each Service, from the Events of the last hour; empty if an announcer responds.
    pub announcing_nodes: BTreeMap<String, String>,
    /// Reason why the API was not queried. The results in the other fields contain the reason, too.
    pub not_queried: Option<String>,
}

/// List of objects.
#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// Event of an announcer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnnouncementEvent {
    involved_object: InvolvedObject,
    message: String,
    last_timestamp: Option<String>,
    event_time: Option<String>,
}

/// Object of an Event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    namespace: String,
    name: String,
}

impl ApiState {
    /// Reads the state, and with `needs_events` the Events of announcers.
    pub(super) async fn read(client: &Client, needs_events: bool) -> Self {
        let (services, pools, assigner, events) = tokio::join!(
            list::<Service>(client, Service::collection(None)),
            list::<AddressPool>(client, AddressPool::collection(None)),
            client.get::<Lease>(ASSIGNER),
            async {
                if !needs_events {
                    return Vec::new();
                }
                let events = list::<AnnouncementEvent>(client, ANNOUNCEMENT_EVENTS.to_owned());
                events.await.unwrap_or_default()
            },
        );
        Self {
            services: services.map(|services| {
                let services = services.into_iter();
                services
                    .filter(|service| service.spec.kind == "LoadBalancer")
                    .collect()
            }),
            pools,
            assigner: match assigner {
                Ok(lease) => Ok(Some(lease)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            announcing_nodes: announcing_nodes(events),
            not_queried: None,
        }
    }

    /// Returns the state of an unreachable API.
    pub(super) fn unreachable(reason: &str) -> Self {
        Self {
            services: Err(reason.to_owned()),
            pools: Err(reason.to_owned()),
            assigner: Err(reason.to_owned()),
            announcing_nodes: BTreeMap::new(),
            not_queried: None,
        }
    }

    /// Returns the state of an API for which there are no credentials.
    pub(super) fn not_queried(reason: &str) -> Self {
        Self {
            not_queried: Some(reason.to_owned()),
            ..Self::unreachable(reason)
        }
    }

    /// Returns true if nothing was read.
    pub(super) fn is_unreachable(&self) -> bool {
        self.services.is_err() && self.pools.is_err() && self.assigner.is_err()
    }
}

async fn list<T: DeserializeOwned>(client: &Client, path: String) -> QueryResult<Vec<T>> {
    let response: Result<List<T>, ClientError> = client.get(&path).await;
    response.map(|list| list.items).map_err(|error| error.to_string())
}

/// Returns the node in the last Event of each Service.
pub(super) fn announcing_nodes(mut events: Vec<AnnouncementEvent>) -> BTreeMap<String, String> {
    events.sort_by_key(|event| event.last_timestamp.clone().or_else(|| event.event_time.clone()));
    let nodes = events.into_iter().filter_map(|event| {
        let node = event.message.split('"').nth(1)?;
        let InvolvedObject { namespace, name } = event.involved_object;
        Some((format!("{namespace}/{name}"), node.to_owned()))
    });
    nodes.collect()
}
