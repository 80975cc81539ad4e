//! SelfSubjectReview and TokenReview.

use api::tree::{child, set, text, texts};
use serde_json::{Map, Value, json};

use super::{Authenticator, Identity};
use crate::failure::Failure;

/// Completes a SelfSubjectReview with the requester's identity.
pub(crate) fn review_self(mut review: Value, requester: &Identity) -> Value {
    set(&mut review, "status", json!({"userInfo": user_info(requester)}));
    review
}

/// Completes a TokenReview with the owner of the token, or with the reason for its rejection.
pub(crate) fn review_token(mut review: Value, authenticator: &Authenticator) -> Result<Value, Failure> {
    let spec = child(&review, "spec");
    let token = text(spec, "token");
    if token.is_empty() {
        return Err(Failure::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let status = match authenticator.review(token, &texts(spec, "audiences")) {
        Ok((owner, audiences)) => {
            json!({"authenticated": true, "user": user_info(&owner), "audiences": audiences})
        }
        Err(reason) => json!({"user": {}, "error": format!("invalid bearer token: {reason}")}),
    };
    set(&mut review, "status", status);
    Ok(review)
}

/// Returns a user as `authentication.k8s.io/v1` `UserInfo`.
fn user_info(identity: &Identity) -> Value {
    let mut user = Map::new();
    user.insert("username".to_owned(), identity.user.as_str().into());
    if !identity.uid.is_empty() {
        user.insert("uid".to_owned(), identity.uid.as_str().into());
    }
    user.insert("groups".to_owned(), identity.groups.clone().into());
    if !identity.extra.is_empty() {
        let extra: Map<String, Value> = identity
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), values.clone().into()))
            .collect();
        user.insert("extra".to_owned(), extra.into());
    }
    Value::Object(user)
}
