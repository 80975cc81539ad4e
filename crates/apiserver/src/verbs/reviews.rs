//! Reviews and token requests: kinds that are answered at once and not stored.

use api::kind::{Kind, TOKEN_REQUEST};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::access::authentication::reviews::{review_self, review_token};
use crate::access::authentication::{Authenticator, Identity};
use crate::access::authorization::Authorizer;
use crate::access::authorization::reviews::{review_access, review_own_access, review_rules};
use crate::failure::Failure;
use crate::registry::admission::Admission;
use crate::request::negotiation::{Accept, Representation, body_format};
use crate::request::query::{FieldValidation, Query};
use crate::request::route::Target;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::printing::{self, IncludeObject};
use crate::verbs::resource::{decode_body, ensure_namespace};

/// The parts of the server that answer reviews, for one requester.
pub(crate) struct Reviews<'a> {
    pub(crate) authenticator: &'a Authenticator,
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) admission: &'a Admission,
    pub(crate) requester: &'a Identity,
}

/// Returns true if the target is a review, or a subresource that takes a token request.
pub(crate) fn is_review(target: &Target) -> bool {
    !target.kind.is_stored() || is_token_request(target)
}

fn is_token_request(target: &Target) -> bool {
    let below = target.subresource.and_then(|name| target.kind.subresource(name));
    below
        .and_then(|subresource| subresource.body_kind)
        .is_some_and(|kind| std::ptr::eq(kind, &TOKEN_REQUEST))
}

impl Reviews<'_> {
    /// Decides about a review or issues a token.
    pub(crate) fn answer(
        &self,
        target: &Target,
        query: &Query,
        accept: &Accept,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<ApiResponse, Failure> {
        let format = body_format(headers)?;
        let mut form = accept.form(headers, query, target.kind)?;
        if is_token_request(target) {
            form.representation = Representation::Objects;
        }
        printing::ensure_object(target.kind, form)?;
        let created = |review: &Value, kind: &Kind| {
            let bytes = Bytes::from(review.to_string());
            let bytes = printing::object(kind, bytes, form, IncludeObject::Nothing)?;
            Ok(response::object(StatusCode::CREATED, bytes, form.encoding))
        };
        if is_token_request(target) {
            let service_accounts = &self.authenticator.service_accounts;
            let admit = |request: &Value| {
                let index = service_accounts.store().index();
                self.admission
                    .admit_token_request(index, target, self.requester, request)
            };
            let token_request = service_accounts.issue(target, body, format, admit)?;
            return created(&token_request, &TOKEN_REQUEST);
        }
        let validation = match query.text("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        };
        let (mut review, warnings) = decode_body(body, format, target.kind, validation)?;
        let reviewed = ensure_namespace(&mut review, target).and_then(|()| self.review(review, target));
        match reviewed {
            Ok(reviewed) => Ok(response::with_warnings(
                created(&reviewed, target.kind)?,
                &warnings,
            )),
            Err(failure) => Err(failure.warned(warnings)),
        }
    }

    fn review(&self, review: Value, target: &Target) -> Result<Value, Failure> {
        match target.kind.kind {
            "SelfSubjectReview" => Ok(review_self(review, self.requester)),
            "TokenReview" => review_token(review, self.authenticator),
            "SelfSubjectAccessReview" => {
                review_own_access(review, target.kind, self.authorizer, self.requester)
            }
            "SelfSubjectRulesReview" => review_rules(review, self.authorizer, self.requester),
            _ => review_access(review, target, self.authorizer),
        }
    }
}
