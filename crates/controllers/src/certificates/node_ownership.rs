//! The Node object of a joining node. The Node is created, or annotated, before the certificate is signed. The name is
//! then reserved for one host, and the certificates of earlier hosts with this name are revoked ([`Incarnation`]).

use api::certificates::condition::APPROVED;
use api::certificates::{
    CERTIFICATES_SINCE, INCARNATION, Incarnation, JOINED_BY_REQUEST, NodeIdentity, Request,
};
use api::object::{CertificateSigningRequest, Node, ObjectKey, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::approval::APPROVED_REASON;
use super::denial_reason::{DenialReason, joining_denial};
use super::recognize::{joining_node, requester};
use super::request_of;
use crate::api_requests::read;

/// The action that reserves the name of a joining node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeOwnership {
    /// The name is reserved; the certificate can be signed.
    Owned,
    /// Create the Node.
    Create,
    /// Annotate the Node with this resourceVersion.
    Mark(String),
    /// Another host has the name.
    Refused(DenialReason),
}

/// Decides about the reservation of a node name for an approved request. Pure.
pub(super) fn node_ownership(request: &CertificateSigningRequest, present: Option<&Node>) -> NodeOwnership {
    let Some(node) = present else {
        return NodeOwnership::Create;
    };
    let is_of_request = |annotation| node.metadata.annotations.get(annotation) == Some(&request.metadata.uid);
    if is_of_request(INCARNATION) {
        return NodeOwnership::Owned;
    }
    // An earlier version of the signer reserved the name and was interrupted.
    if is_of_request(JOINED_BY_REQUEST) {
        return NodeOwnership::Mark(node.metadata.resource_version.clone());
    }
    // A manual approval overrides the protection of the name.
    let is_approved_by_hand = request
        .condition(APPROVED)
        .is_some_and(|condition| condition.reason != APPROVED_REASON);
    match joining_denial(request, node) {
        Some(denial) if !is_approved_by_hand => NodeOwnership::Refused(denial),
        _ => NodeOwnership::Mark(node.metadata.resource_version.clone()),
    }
}

/// Reserves the node name of a joining node; returns a reason for a denial if another host has the name.
///
/// # Errors
/// Returns the error of the request, which may be a conflict with another writer. A retry resolves it.
pub(super) async fn reserve_name(
    client: &Client,
    request: &CertificateSigningRequest,
    node_name: &str,
    now: Timestamp,
) -> Result<Option<DenialReason>, ClientError> {
    let node = read::<Node>(client, &ObjectKey::new("", node_name)).await?;
    let annotations = json!({
        CERTIFICATES_SINCE: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        JOINED_BY_REQUEST: request.metadata.uid,
        INCARNATION: request.metadata.uid,
    });
    let (method, path, media_type, body): (_, _, _, Value) = match node_ownership(request, node.as_ref()) {
        NodeOwnership::Owned => return Ok(None),
        NodeOwnership::Refused(denial) => return Ok(Some(denial)),
        NodeOwnership::Create => {
            let node = json!({"apiVersion": Node::VERSION, "kind": Node::KIND,
                              "metadata": {"name": node_name, "annotations": annotations}});
            (Method::POST, Node::collection(None), JSON, node)
        }
        NodeOwnership::Mark(resource_version) => {
            let path = format!("{}/{node_name}", Node::collection(None));
            let metadata = json!({"resourceVersion": resource_version, "annotations": annotations});
            (Method::PATCH, path, MERGE_PATCH, json!({"metadata": metadata}))
        }
    };
    client.request(method, &path, media_type, Some(&body)).await?;
    tracing::info!(
        node = node_name,
        request = request.metadata.name,
        "node name reserved"
    );
    Ok(None)
}

/// Returns the incarnation for the certificate of a request; `None` if the request is not of a node, or the Node does
/// not exist yet. Returns a reason for a denial if the Node was replaced since the request was made.
///
/// # Errors
/// Returns the error of the read.
pub(super) async fn carried_incarnation(
    client: &Client,
    request: &CertificateSigningRequest,
) -> Result<Result<Option<Incarnation>, DenialReason>, ClientError> {
    let Some(node_name) = request_of(request).ok().and_then(|parsed| node_name(&parsed)) else {
        return Ok(Ok(None));
    };
    let node = read::<Node>(client, &ObjectKey::new("", &node_name)).await?;
    Ok(incarnation_for(request, &node_name, node.as_ref()))
}

/// Returns the Node that a certificate identifies.
fn node_name(request: &Request) -> Option<String> {
    let identity = NodeIdentity::of(request.common_name()?, &request.organizations)?;
    Some(identity.node_name.to_owned())
}

/// Returns the incarnation for a certificate of the Node `present`. Pure.
pub(super) fn incarnation_for(
    request: &CertificateSigningRequest,
    node_name: &str,
    present: Option<&Node>,
) -> Result<Option<Incarnation>, DenialReason> {
    let current = present.map(Incarnation::of_node);
    let joined_by = present.and_then(|node| node.metadata.annotations.get(INCARNATION));
    if joining_node(request).is_some() {
        // Another host may have replaced this one since the name was reserved.
        return if joined_by == Some(&request.metadata.uid) {
            Ok(current)
        } else {
            Err(DenialReason::NameTaken(node_name.to_owned()))
        };
    }
    if requester(request) != Some(node_name) {
        // Such a request requires a manual approval.
        return Ok(current);
    }
    let proved = request
        .spec
        .extra
        .get(INCARNATION)
        .and_then(|values| values.first());
    let is_of_current = match proved {
        Some(written) => current.as_ref() == Some(&Incarnation::from_text(written)),
        // The sender's certificate has no incarnation. Certificates of joined nodes have one.
        None => joined_by.is_none(),
    };
    if is_of_current {
        Ok(current)
    } else {
        Err(DenialReason::AnotherIncarnation(node_name.to_owned()))
    }
}
