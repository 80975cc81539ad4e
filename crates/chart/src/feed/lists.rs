//! Kinds that are listed again and again, because only examinations read them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::object::ObjectKey;
use client::{Client, ClientError, PageSize};
use explain::Kind;
use serde_json::Value;

use super::Tree;
use super::state::SharedFeed;
use super::watched::WATCHED;
use crate::reduction::reduce;

/// Time between two lists of all kinds.
const PERIOD: Duration = Duration::from_secs(60);
/// Objects of one page of a list.
const PAGE_OBJECTS: usize = 500;
/// Maximum number of pages of a list: 100,000 objects. A kind with more is unknown to the examinations.
const PAGES_MAX: usize = 200;

/// Kinds that the map reads with the rights of a user, with the watched ones first. ConfigMaps, Secrets and Events are
/// not among them: their texts are not made for every user who may list Services.
pub const KINDS_OF_USERS: [Kind; 20] = [
    WATCHED[0],
    WATCHED[1],
    WATCHED[2],
    WATCHED[3],
    WATCHED[4],
    Kind::Endpoints,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::ServiceCidr,
    Kind::AddressPool,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::Ingress,
    Kind::IngressClass,
    Kind::NetworkPolicy,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::IpAddressPool,
    Kind::L2Advertisement,
    Kind::BgpAdvertisement,
];

/// Kinds that the map reads with an identity of its own, which the role `system:portolan-chart` permits. A user who
/// logs in must have the right to list all of them, so the map shows nothing more than the API does.
pub const KINDS_OF_COMPONENT: [Kind; 10] = [
    WATCHED[0],
    WATCHED[1],
    WATCHED[2],
    WATCHED[3],
    WATCHED[4],
    Kind::Endpoints,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::ServiceCidr,
    Kind::AddressPool,
];

/// Lists those of the kinds that are not watched, again and again; never returns.
pub(super) async fn repeat(client: &Client, shared: &SharedFeed, kinds: &[Kind]) {
    let listed = kinds.iter().copied().filter(|kind| !WATCHED.contains(kind));
    loop {
        for kind in listed.clone() {
            let objects = match list(client, kind).await {
                Ok(objects) => objects,
                Err(error) if error.is_forbidden() || error.is_not_found() => None,
                Err(error) => {
                    // The earlier list stays.
                    tracing::warn!(kind = kind.name(), %error, "list for examinations failed");
                    continue;
                }
            };
            shared.with(|state| state.set_listed(kind, objects));
        }
        shared.with(|state| state.set_listed_all());
        tokio::time::sleep(PERIOD).await;
    }
}

/// Lists a kind in pages, reduced. `None` if there are too many objects.
async fn list(client: &Client, kind: Kind) -> Result<Option<BTreeMap<ObjectKey, Tree>>, ClientError> {
    let mut objects = BTreeMap::new();
    let mut token = String::new();
    let mut size = PageSize::new(PAGE_OBJECTS);
    for _ in 0..PAGES_MAX {
        let mut path = format!("{}?limit={}", kind.collection(), size.objects());
        if !token.is_empty() {
            path.push_str("&continue=");
            client::push_escaped(&mut path, &token);
        }
        let mut page: Value = match client.get(&path).await {
            Err(error) if size.shrink(&error) => continue,
            page => page?,
        };
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            for mut tree in items {
                reduce(kind, &mut tree);
                let text = |field: &str| tree["metadata"][field].as_str().unwrap_or_default();
                let key = ObjectKey::new(text("namespace"), text("name"));
                objects.insert(key, Arc::new(tree));
            }
        }
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if token.is_empty() {
            return Ok(Some(objects));
        }
    }
    tracing::warn!(
        kind = kind.name(),
        objects_max = PAGES_MAX * PAGE_OBJECTS,
        "kind with too many objects not examined"
    );
    Ok(None)
}
