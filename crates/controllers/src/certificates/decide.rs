//! Carrying out: asking whether somebody may have what they ask for, and writing decisions and certificates down.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::certificates::GROUP;
use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::{CertificateSigningRequest, Endpoints, Node, ObjectKey, Resource, ServiceCidr};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, JSON};
use http::Method;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};

use super::claim::{carried_incarnation, take_name};
use super::keeper::Answer;
use super::objection::{Objection, Others, Reserved, object_to_joining, object_to_serving};
use super::recognise::joining_node;
use super::{Authority, Purpose, Recognised};
use crate::run::Environment;
use crate::write::{list_all, read};

/// How soon a request is looked at again whose Node may not have said yet which addresses it has.
const NOT_ITS_ADDRESS_PERIOD: Duration = Duration::from_secs(1);
/// How soon one is whose sender may not have it: roles change seldom.
const NOT_PERMITTED_PERIOD: Duration = Duration::from_secs(60);
/// What a decision says that this program made.
pub(super) const APPROVED_REASON: &str = "AutoApproved";
const DENIED_REASON: &str = "AutoDenied";
const FAILED_REASON: &str = "SignerValidationFailure";
/// Decides about a request. What may not be had is left to people, and looked at again.
pub(super) async fn decide(
    environment: &Environment,
    request: CertificateSigningRequest,
    recognised: Recognised,
    reserved: &Reserved,
) -> Result<Answer, ClientError> {
    let client = &environment.client;
    if !is_permitted(client, &request, recognised.purpose.permission()).await? {
        tracing::warn!(
            request = request.metadata.name,
            user = request.spec.username,
            permission = recognised.purpose.permission(),
            "the certificate is not approved: whoever asks may not have it"
        );
        return Ok(Answer::Undecided(NOT_PERMITTED_PERIOD));
    }
    let objection = match reserved.object_to_name(&recognised.node) {
        Some(objection) => Some(objection),
        None => objection(client, &request, &recognised, reserved).await?,
    };
    let (kind, reason, message) = match objection {
        Some(objection) if objection.may_pass() => {
            tracing::debug!(request = request.metadata.name, %objection, "not approved yet");
            return Ok(Answer::Undecided(NOT_ITS_ADDRESS_PERIOD));
        }
        Some(objection) => (DENIED, DENIED_REASON, objection.to_string()),
        None => (APPROVED, APPROVED_REASON, recognised.purpose.message().to_owned()),
    };
    tracing::info!(
        request = request.metadata.name,
        user = request.spec.username,
        decision = kind,
        message
    );
    let mut body = body(&request);
    push_condition(environment, &mut body, kind, reason, &message);
    write(client, &request, "approval", &body).await?;
    Ok(Answer::Done)
}

/// What speaks against a request, as the cluster is now.
async fn objection(
    client: &Client,
    request: &CertificateSigningRequest,
    recognised: &Recognised,
    reserved: &Reserved,
) -> Result<Option<Objection>, ClientError> {
    match &recognised.purpose {
        Purpose::Joining => {
            let node = read::<Node>(client, &ObjectKey::new("", &recognised.node)).await?;
            Ok(node.and_then(|node| object_to_joining(request, &node)))
        }
        Purpose::Serving(addresses) => {
            let others = Others {
                nodes: list_all::<Node>(client, "").await?.items,
                api_servers: api_servers(client).await?,
                service_cidrs: service_cidrs(client).await?,
            };
            Ok(object_to_serving(&recognised.node, addresses, &others, reserved))
        }
        Purpose::Renewing | Purpose::Part(_) => Ok(None),
    }
}

/// Signs an approved request, or writes down why not. The certificate of a machine that joins is signed once the name is
/// the machine's.
pub(super) async fn sign(
    environment: &Environment,
    object: CertificateSigningRequest,
    authority: &Authority,
) -> Result<(), ClientError> {
    let mut body = body(&object);
    let refusal = match joining_node(&object) {
        Some(node_name) => {
            let now = environment.clock.now();
            take_name(&environment.client, &object, &node_name, now).await?
        }
        None => None,
    };
    let incarnation = match refusal {
        Some(objection) => Err(objection),
        None => carried_incarnation(&environment.client, &object).await?,
    };
    let signed = incarnation.map_err(|objection| objection.to_string());
    let signed = signed.and_then(|incarnation| {
        let signed = authority.sign(&object, incarnation.as_ref(), environment.clock.now());
        signed.map_err(|error| error.to_string())
    });
    match signed {
        Ok(certificate) => body["status"]["certificate"] = json!(STANDARD.encode(certificate)),
        Err(reason) => {
            tracing::warn!(request = object.metadata.name, reason, "certificate not signed");
            push_condition(environment, &mut body, FAILED, FAILED_REASON, &reason);
        }
    }
    write(&environment.client, &object, "status", &body).await
}

/// The ranges of Services' cluster IPs.
async fn service_cidrs(client: &Client) -> Result<Vec<IpNet>, ClientError> {
    let all = list_all::<ServiceCidr>(client, "").await?.items;
    let ranges = all.iter().flat_map(|range| &range.spec.cidrs);
    Ok(ranges.filter_map(|range| range.parse().ok()).collect())
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
