//! Carrying out: asking whether somebody may have what they ask for, and writing decisions and certificates down.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::certificates::GROUP;
use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::{CertificateSigningRequest, Endpoints, Node, ObjectKey, Resource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, JSON};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::keeper::Answer;
use super::{Authority, Purpose, Recognised};
use crate::run::Environment;
use crate::write::{list_all, read};

/// How soon a request is looked at again whose Node may not have said yet which addresses it has.
const NOT_ITS_ADDRESS_PERIOD: Duration = Duration::from_secs(1);
/// How soon one is whose sender may not have it: roles change seldom.
const NOT_PERMITTED_PERIOD: Duration = Duration::from_secs(60);
/// What a decision says that this program made.
const APPROVED_REASON: &str = "AutoApproved";
const DENIED_REASON: &str = "AutoDenied";
const FAILED_REASON: &str = "SignerValidationFailure";
/// Names that clients know the API server by: no machine gets them.
const NAMES_OF_API_SERVER: [&str; 2] = ["localhost", "kubernetes"];

/// Why a machine does not get a certificate that it may ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// Clients would take the machine for the API server.
    #[error("{0:?} is a name of the API server; join with another --node-name")]
    Reserved(String),
    /// Another machine has the name.
    #[error(
        "a Node named {0:?} is there and ready; join with another --node-name, or end that machine first"
    )]
    NameTaken(String),
    /// Not yet: the Node has not said that it has the address. It will, if it has.
    #[error("the Node {node} does not say that {address} is its address")]
    NotItsAddress {
        /// The Node.
        node: String,
        /// The address.
        address: IpAddr,
    },
    /// The address is another's.
    #[error("{address} is an address of {owner}, too")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Whose else.
        owner: String,
    },
}

impl Objection {
    /// Whether it may pass by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::NotItsAddress { .. })
    }
}

/// What speaks against a machine that joins under a name. Pure.
pub fn object_to_node(name: &str, present: Option<&Node>) -> Option<Objection> {
    let is_reserved = NAMES_OF_API_SERVER.contains(&name) || name.starts_with("kubernetes.default");
    if is_reserved {
        return Some(Objection::Reserved(name.to_owned()));
    }
    let is_taken = present.is_some_and(Node::is_ready);
    is_taken.then(|| Objection::NameTaken(name.to_owned()))
}

/// What speaks against a Node's agent serving at `addresses`: they are its own, and nobody else's. Pure.
pub fn object_to_serving(
    name: &str,
    addresses: &[IpAddr],
    nodes: &[Node],
    api_servers: &BTreeSet<IpAddr>,
) -> Option<Objection> {
    let has = |node: &Node, address: IpAddr| {
        let mut addresses = node.status.addresses.iter();
        addresses.any(|of_node| of_node.address.parse() == Ok(address))
    };
    let own = nodes.iter().find(|node| node.metadata.name == name);
    addresses.iter().copied().find_map(|address| {
        if !own.is_some_and(|own| has(own, address)) {
            let node = name.to_owned();
            return Some(Objection::NotItsAddress { node, address });
        }
        let other = nodes
            .iter()
            .find(|node| node.metadata.name != name && has(node, address));
        let owner = match other {
            Some(other) => format!("the Node {}", other.metadata.name),
            None if api_servers.contains(&address) => "an API server".to_owned(),
            None => return None,
        };
        Some(Objection::AddressTaken { address, owner })
    })
}

/// Decides about a request. What may not be had is left to people, and looked at again.
pub(super) async fn decide(
    environment: &Environment,
    object: CertificateSigningRequest,
    recognised: Recognised,
) -> Result<Answer, ClientError> {
    let client = &environment.client;
    if !is_permitted(client, &object, recognised.purpose.permission()).await? {
        tracing::warn!(
            request = object.metadata.name,
            user = object.spec.username,
            permission = recognised.purpose.permission(),
            "the certificate is not approved: whoever asks may not have it"
        );
        return Ok(Answer::Undecided(NOT_PERMITTED_PERIOD));
    }
    let objection = match &recognised.purpose {
        Purpose::Joining => {
            let node = read::<Node>(client, &ObjectKey::new("", &recognised.node)).await?;
            object_to_node(&recognised.node, node.as_ref())
        }
        Purpose::Serving(addresses) => {
            let nodes = list_all::<Node>(client, "").await?.items;
            let api_servers = api_servers(client).await?;
            object_to_serving(&recognised.node, addresses, &nodes, &api_servers)
        }
        Purpose::Renewing | Purpose::Part => None,
    };
    let (kind, reason, message) = match objection {
        Some(objection) if objection.may_pass() => {
            tracing::debug!(request = object.metadata.name, %objection, "not approved yet");
            return Ok(Answer::Undecided(NOT_ITS_ADDRESS_PERIOD));
        }
        Some(objection) => (DENIED, DENIED_REASON, objection.to_string()),
        None => (APPROVED, APPROVED_REASON, recognised.purpose.message().to_owned()),
    };
    tracing::info!(
        request = object.metadata.name,
        user = object.spec.username,
        decision = kind,
        message
    );
    let mut body = body(&object);
    push_condition(environment, &mut body, kind, reason, &message);
    write(client, &object, "approval", &body).await?;
    Ok(Answer::Done)
}

/// Signs an approved request, or writes down why not.
pub(super) async fn sign(
    environment: &Environment,
    object: CertificateSigningRequest,
    authority: &Authority,
) -> Result<(), ClientError> {
    let mut body = body(&object);
    match authority.sign(&object, environment.clock.now()) {
        Ok(certificate) => body["status"]["certificate"] = json!(STANDARD.encode(certificate)),
        Err(error) => {
            tracing::warn!(request = object.metadata.name, %error, "a certificate is not signed");
            push_condition(environment, &mut body, FAILED, FAILED_REASON, &error.to_string());
        }
    }
    write(&environment.client, &object, "status", &body).await
}

/// The addresses of the API servers.
async fn api_servers(client: &Client) -> Result<BTreeSet<IpAddr>, ClientError> {
    let endpoints = read::<Endpoints>(client, &ObjectKey::new("default", "kubernetes")).await?;
    let subsets = endpoints.into_iter().flat_map(|endpoints| endpoints.subsets);
    let addresses = subsets.flat_map(|subset| subset.addresses);
    Ok(addresses.filter_map(|address| address.ip.parse().ok()).collect())
}

/// Whether whoever asks may `create` that of the requests.
async fn is_permitted(
    client: &Client,
    object: &CertificateSigningRequest,
    permission: &str,
) -> Result<bool, ClientError> {
    #[derive(Deserialize)]
    struct Review {
        status: ReviewStatus,
    }
    #[derive(Deserialize)]
    struct ReviewStatus {
        allowed: bool,
    }
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": object.spec.username, "groups": object.spec.groups,
        "resourceAttributes": {"group": GROUP, "resource": "certificatesigningrequests",
                               "subresource": permission, "verb": "create"}}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = client.request(Method::POST, path, JSON, Some(&review)).await?;
    let review: Review = serde_json::from_value(answer).map_err(|source| ClientError::Decode {
        path: path.to_owned(),
        source,
    })?;
    Ok(review.status.allowed)
}

/// The object as it was read: whoever wrote it since is not written over.
fn body(object: &CertificateSigningRequest) -> Value {
    // A view that was read from JSON is JSON.
    let mut body = serde_json::to_value(object).unwrap_or_default();
    body["apiVersion"] = json!(format!("{GROUP}/v1"));
    body["kind"] = json!(CertificateSigningRequest::KIND);
    body
}

fn push_condition(environment: &Environment, body: &mut Value, kind: &str, reason: &str, message: &str) {
    let time = environment.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message,
                           "lastUpdateTime": time, "lastTransitionTime": time});
    match body["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => body["status"]["conditions"] = json!([condition]),
    }
}

async fn write(
    client: &Client,
    object: &CertificateSigningRequest,
    subresource: &str,
    body: &Value,
) -> Result<(), ClientError> {
    let collection = CertificateSigningRequest::collection(None);
    let path = format!("{collection}/{}/{subresource}", object.metadata.name);
    match client.request(Method::PUT, &path, JSON, Some(body)).await {
        // It is gone, or news of it is on its way.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
