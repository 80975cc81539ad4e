//! What the API says of load balancing. Each kind is asked for by itself: who may not read one still sees the others.

use std::collections::BTreeMap;

use api::object::{AddressPool, Lease, Resource, Service};
use client::{Client, ClientError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The Lease of what assigns addresses.
const ASSIGNER: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-balancer";
/// Events by which announcers tell that they took an address.
const TAKEN: &str = "/api/v1/events?fieldSelector=reason%3DnodeAssigned";

/// An answer, or why there is none, for people.
pub type Answer<T> = Result<T, String>;

/// What the API says.
#[derive(Clone, Debug)]
pub struct Asked {
    /// All Services of type LoadBalancer.
    pub services: Answer<Vec<Service>>,
    /// All pools.
    pub pools: Answer<Vec<AddressPool>>,
    /// Who assigns addresses, if there is an election.
    pub assigner: Answer<Option<Lease>>,
    /// The node that took a Service's address last, by Events, which are kept for an hour; asked for only where no announcer
    /// can be asked.
    pub taken: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// The parts of an Event that count.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Told {
    involved_object: Involved,
    message: String,
    last_timestamp: Option<String>,
    event_time: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Involved {
    namespace: String,
    name: String,
}

impl Asked {
    /// Asks.
    pub async fn of(client: &Client, wants_events: bool) -> Self {
        let (services, pools, assigner, taken) = tokio::join!(
            list::<Service>(client, Service::collection(None)),
            list::<AddressPool>(client, AddressPool::collection(None)),
            client.get::<Lease>(ASSIGNER),
            async {
                match wants_events {
                    true => list::<Told>(client, TAKEN.to_owned()).await.unwrap_or_default(),
                    false => Vec::new(),
                }
            },
        );
        Self {
            services: services.map(|services| {
                let balanced = services.into_iter();
                balanced
                    .filter(|service| service.spec.kind == "LoadBalancer")
                    .collect()
            }),
            pools,
            assigner: match assigner {
                Ok(lease) => Ok(Some(lease)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            taken: takers(taken),
        }
    }

    /// Nothing could be asked, for this reason.
    pub fn nothing(why: &str) -> Self {
        Self {
            services: Err(why.to_owned()),
            pools: Err(why.to_owned()),
            assigner: Err(why.to_owned()),
            taken: BTreeMap::new(),
        }
    }

    /// Whether nothing could be asked.
    pub fn is_nothing(&self) -> bool {
        self.services.is_err() && self.pools.is_err() && self.assigner.is_err()
    }
}

async fn list<T: DeserializeOwned>(client: &Client, path: String) -> Answer<Vec<T>> {
    let answer: Result<List<T>, ClientError> = client.get(&path).await;
    answer.map(|list| list.items).map_err(|error| error.to_string())
}

/// The node of each Service's last Event.
pub(super) fn takers(mut told: Vec<Told>) -> BTreeMap<String, String> {
    told.sort_by_key(|told| told.last_timestamp.clone().or_else(|| told.event_time.clone()));
    let takers = told.into_iter().filter_map(|told| {
        let node = told.message.split('"').nth(1)?;
        let Involved { namespace, name } = told.involved_object;
        Some((format!("{namespace}/{name}"), node.to_owned()))
    });
    takers.collect()
}
