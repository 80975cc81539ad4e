//! TokenRequests of nodes: each for a Pod on the node, and for an audience that the Pod uses.

use api::kind;
use api::pod::token_audiences;
use api::rbac::Action;
use api::tree::{child, text, texts};
use serde_json::Value;
use store::Index;

use super::{Refusal, read_stored, unknown_node};
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, AuthorizationDecision, Authorizer};
use crate::failure::Failure;
use crate::request::route::Target;

/// Verb that permits tokens for an audience (the resource) that no Pod uses.
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

/// Admits a node's TokenRequest for the ServiceAccount `target`.
pub(in crate::registry::admission) fn admit_token_request(
    node: &str,
    index: &Index,
    target: &Target,
    requester: &Identity,
    authorizer: &Authorizer,
    request: &Value,
) -> Result<(), Failure> {
    let admit = || {
        if node.is_empty() {
            return Err(unknown_node());
        }
        let spec = child(request, "spec");
        let pod = bound_pod(node, index, target.namespace(), child(spec, "boundObjectRef"))?;
        let audience = match texts(spec, "audiences").as_slice() {
            [] => "",
            [one] => one,
            _ => return Err("node may only request 0 or 1 audiences".into()),
        };
        if token_audiences(child(&pod, "spec")).contains(audience) {
            return Ok(());
        }
        let action = Action::Resource {
            verb: AUDIENCE_VERB,
            group: "",
            resource: audience,
            subresource: "",
            name: target.name(),
        };
        match authorizer.decide(&Attributes::new(requester, target.namespace(), action)) {
            AuthorizationDecision::Allowed(_) => Ok(()),
            AuthorizationDecision::Denied(_) => Err(format!(
                "audience {audience:?} not found in pod spec volume, {} is not authorized to request tokens for \
                 this audience",
                requester.user
            )
            .into()),
        }
    };
    admit().map_err(|refusal: Refusal| refusal.into_failure(target, target.name()))
}

/// Returns the Pod that the token is bound to, which must run on the node.
fn bound_pod(node: &str, index: &Index, namespace: &str, reference: &Value) -> Result<Value, Refusal> {
    let [api_version, kind_name, name] = ["apiVersion", "kind", "name"].map(|field| text(reference, field));
    if (api_version, kind_name) != ("v1", "Pod") || name.is_empty() {
        return Err("node requested token not bound to a pod".into());
    }
    let uid = text(reference, "uid");
    if uid.is_empty() {
        return Err("node requested token with a pod binding without a uid".into());
    }
    let pods = kind::find("", "v1", "pods").ok_or_else(|| Refusal::Unreadable(Failure::no_such_path()))?;
    let pod = read_stored(index, &Target::object(pods, namespace, name))?;
    if uid != text(child(&pod, "metadata"), "uid") {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(why.into());
    }
    if text(child(&pod, "spec"), "nodeName") == node {
        Ok(pod)
    } else {
        Err("node requested token bound to a pod scheduled on a different node".into())
    }
}
