//! Approval and signing: authorization checks and writes of the results.

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

use super::controller::JobOutput;
use super::denial_reason::{DenialReason, ForeignAddresses, ReservedNames, joining_denial, serving_denial};
use super::node_ownership::{carried_incarnation, reserve_name};
use super::recognize::joining_node;
use super::{Authority, Purpose, RecognizedRequest};
use crate::api_requests::{list_all, read};
use crate::environment::Environment;

/// Delay before a retry for a Node that has not reported its addresses yet.
const ADDRESS_RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Delay before a retry for a sender without permission. Roles change rarely.
const NOT_PERMITTED_PERIOD: Duration = Duration::from_secs(60);
/// Reason of approvals by this controller.
pub(super) const APPROVED_REASON: &str = "AutoApproved";
const DENIED_REASON: &str = "AutoDenied";
const FAILED_REASON: &str = "SignerValidationFailure";

/// Approves a request if its sender has the permission and no reason for a denial exists. Other requests stay pending.
pub(super) async fn approve(
    environment: &Environment,
    request: CertificateSigningRequest,
    recognized: RecognizedRequest,
    reserved: &ReservedNames,
) -> Result<JobOutput, ClientError> {
    let client = &environment.client;
    if !is_permitted(client, &request, recognized.purpose.permission()).await? {
        tracing::warn!(
            request = request.metadata.name,
            user = request.spec.username,
            permission = recognized.purpose.permission(),
            "request pending; its sender lacks the permission"
        );
        return Ok(JobOutput::Undecided(NOT_PERMITTED_PERIOD));
    }
    let denial = match reserved.name_denial(&recognized.node) {
        Some(denial) => Some(denial),
        None => denial(client, &request, &recognized, reserved).await?,
    };
    let (kind, reason, message) = match denial {
        Some(denial) if denial.is_temporary() => {
            tracing::debug!(request = request.metadata.name, %denial, "request pending");
            return Ok(JobOutput::Undecided(ADDRESS_RETRY_PERIOD));
        }
        Some(denial) => (DENIED, DENIED_REASON, denial.to_string()),
        None => (APPROVED, APPROVED_REASON, recognized.purpose.message().to_owned()),
    };
    tracing::info!(
        request = request.metadata.name,
        user = request.spec.username,
        decision = kind,
        message,
        "request decided"
    );
    let mut body = body(&request);
    push_condition(environment, &mut body, kind, reason, &message);
    write(client, &request, "approval", &body).await?;
    Ok(JobOutput::Done)
}

/// Returns the reason to deny a request in the current state of the cluster.
async fn denial(
    client: &Client,
    request: &CertificateSigningRequest,
    recognized: &RecognizedRequest,
    reserved: &ReservedNames,
) -> Result<Option<DenialReason>, ClientError> {
    match &recognized.purpose {
        Purpose::Joining => {
            let node = read::<Node>(client, &ObjectKey::new("", &recognized.node)).await?;
            Ok(node.and_then(|node| joining_denial(request, &node)))
        }
        Purpose::Serving(addresses) => {
            let foreign = ForeignAddresses {
                nodes: list_all::<Node>(client, "").await?.items,
                api_servers: api_servers(client).await?,
                service_cidrs: service_cidrs(client).await?,
            };
            Ok(serving_denial(&recognized.node, addresses, &foreign, reserved))
        }
        Purpose::Renewing | Purpose::Part(_) => Ok(None),
    }
}

/// Signs an approved request, or records the reason of a failure. The certificate of a joining node is signed
/// after its name is reserved.
pub(super) async fn sign(
    environment: &Environment,
    object: CertificateSigningRequest,
    authority: &Authority,
) -> Result<(), ClientError> {
    let mut body = body(&object);
    let denial = match joining_node(&object) {
        Some(node_name) => {
            let now = environment.clock.now();
            reserve_name(&environment.client, &object, &node_name, now).await?
        }
        None => None,
    };
    let incarnation = match denial {
        Some(denial) => Err(denial),
        None => carried_incarnation(&environment.client, &object).await?,
    };
    let signed = incarnation.map_err(|denial| denial.to_string());
    let signed = signed.and_then(|incarnation| {
        let signed = authority.sign(&object, incarnation.as_ref(), environment.clock.now());
        signed.map_err(|error| error.to_string())
    });
    match signed {
        Ok(certificate) => body["status"]["certificate"] = json!(STANDARD.encode(certificate)),
        Err(reason) => {
            tracing::warn!(request = object.metadata.name, reason, "signing failed");
            push_condition(environment, &mut body, FAILED, FAILED_REASON, &reason);
        }
    }
    write(&environment.client, &object, "status", &body).await
}

/// Returns the ranges of all ServiceCIDRs.
async fn service_cidrs(client: &Client) -> Result<Vec<IpNet>, ClientError> {
    let all = list_all::<ServiceCidr>(client, "").await?.items;
    let ranges = all.iter().flat_map(|range| &range.spec.cidrs);
    Ok(ranges.filter_map(|range| range.parse().ok()).collect())
}

/// Returns the addresses of the API servers.
async fn api_servers(client: &Client) -> Result<BTreeSet<IpAddr>, ClientError> {
    let endpoints = read::<Endpoints>(client, &ObjectKey::new("default", "kubernetes")).await?;
    let subsets = endpoints.into_iter().flat_map(|endpoints| endpoints.subsets);
    let addresses = subsets.flat_map(|subset| subset.addresses);
    Ok(addresses.filter_map(|address| address.ip.parse().ok()).collect())
}

/// Returns true if the sender of a request may `create` the subresource `permission`.
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
    let response = client.request(Method::POST, path, JSON, Some(&review)).await?;
    let review: Review = serde_json::from_value(response).map_err(|source| ClientError::Decode {
        path: path.to_owned(),
        source,
    })?;
    Ok(review.status.allowed)
}

/// Returns the request as it was read. Because of its resourceVersion, a write after a change by another client is a
/// conflict.
fn body(object: &CertificateSigningRequest) -> Value {
    // Serialization cannot fail: the object was deserialized from JSON.
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
        // The request is deleted or outdated; the watch delivers the change.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
