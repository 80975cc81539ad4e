//! TokenRequest: issues a token for a ServiceAccount.

use api::decode::Format;
use api::field::{FieldError, FieldErrors, Path};
use api::kind::{self, Kind, TOKEN_REQUEST};
use api::tree::{child, set, text, texts};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ServiceAccounts;
use super::claims::{Claims, Owner, Reference};
use super::keys::KEY_LIFETIME;
use crate::failure::Failure;
use crate::request::query::FieldValidation;
use crate::request::route::Target;
use crate::verbs::resource::{decode_body, ensure_namespace, metadata_mut};

/// Default and bounds of `spec.expirationSeconds`.
const EXPIRATION_SECONDS_DEFAULT: i64 = 3600;
const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;

/// Objects that a token is bound to besides its ServiceAccount.
#[derive(Default)]
struct BoundObjects {
    node: Option<Reference>,
    pod: Option<Reference>,
    secret: Option<Reference>,
}

impl ServiceAccounts {
    /// Issues a token for the ServiceAccount of `target`; returns the request with the token in its status. `admit`
    /// applies admission.
    pub(crate) fn issue(
        &self,
        target: &Target,
        body: &[u8],
        format: Format,
        admit: impl FnOnce(&Value) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let (mut request, _) = decode_body(body, format, &TOKEN_REQUEST, FieldValidation::Warn)?;
        complete_name(&mut request, target)?;
        ensure_namespace(&mut request, target)?;
        admit(&request)?;
        let account = self.object(target.kind, target.namespace(), target.name())?;
        let spec = child(&request, "spec");
        let seconds = expiration_seconds(spec)?;
        let bound = self.bound_objects(child(spec, "boundObjectRef"), target)?;
        let audiences: Vec<String> = match texts(spec, "audiences").as_slice() {
            [] => vec![self.audience().to_owned()],
            requested => requested.iter().map(|audience| (*audience).to_owned()).collect(),
        };
        // The key verifies tokens for this period only.
        let lifetime_seconds = seconds.min(i64::try_from(KEY_LIFETIME.as_secs()).unwrap_or(i64::MAX));
        let owner = Owner {
            namespace: target.namespace().to_owned(),
            node: bound.node,
            pod: bound.pod,
            secret: bound.secret,
            serviceaccount: Reference::to(&account),
        };
        let claims = self.new_claims(target, owner, audiences.clone(), lifetime_seconds);
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "ServiceAccount token not signed");
            Failure::internal("the token could not be signed")
        };
        let value = serde_json::to_value(&claims).map_err(|error| failed(&error))?;
        let token = self.keys.load().sign(&value).map_err(|error| failed(&error))?;
        let expires = Timestamp::from_second(claims.exp).map_err(|error| failed(&error))?;
        set_granted(&mut request, audiences, lifetime_seconds);
        set(
            &mut request,
            "status",
            json!({"token": token, "expirationTimestamp": expires.to_string()}),
        );
        Ok(request)
    }

    /// Returns the claims of a token that is valid from now on.
    fn new_claims(
        &self,
        target: &Target,
        owner: Owner,
        audiences: Vec<String>,
        lifetime_seconds: i64,
    ) -> Claims {
        let now_seconds = Timestamp::now().as_second();
        Claims {
            aud: audiences,
            exp: now_seconds + lifetime_seconds,
            iat: now_seconds,
            iss: self.issuer.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            owner,
            nbf: now_seconds,
            sub: format!(
                "{}{}:{}",
                super::super::SERVICE_ACCOUNT_PREFIX,
                target.namespace(),
                target.name()
            ),
        }
    }

    /// Looks up the object that a token is bound to.
    fn bound_objects(&self, reference: &Value, target: &Target) -> Result<BoundObjects, Failure> {
        let mut bound = BoundObjects::default();
        if reference.is_null() {
            return Ok(bound);
        }
        let (api_version, kind_name, name) = (
            text(reference, "apiVersion"),
            text(reference, "kind"),
            text(reference, "name"),
        );
        let plural = match (api_version, kind_name) {
            ("v1", "Pod") => "pods",
            ("v1", "Secret") => "secrets",
            ("v1", "Node") => "nodes",
            _ => {
                let message = format!("cannot bind token to object of type {api_version}, Kind={kind_name}");
                return Err(Failure::bad_request(message));
            }
        };
        let kind = kind::find("", "v1", plural).ok_or_else(Failure::no_such_path)?;
        let object = self.object(kind, target.namespace(), name)?;
        let found = Reference::to(&object);
        let expected_uid = text(reference, "uid");
        if !expected_uid.is_empty() && expected_uid != found.uid {
            let message = format!(
                "the UID in the bound object reference ({expected_uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Failure::conflict(kind, name, &message));
        }
        match kind_name {
            "Pod" => {
                let spec = child(&object, "spec");
                if text(spec, "serviceAccountName") != target.name() {
                    let message = format!(
                        "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                        target.name()
                    );
                    return Err(Failure::bad_request(message));
                }
                bound.node = self.node(text(spec, "nodeName"));
                bound.pod = Some(found);
            }
            "Secret" => bound.secret = Some(found),
            _ => bound.node = Some(found),
        }
        Ok(bound)
    }

    /// Returns the Node with this name, if it exists.
    fn node(&self, name: &str) -> Option<Reference> {
        let kind = kind::find("", "v1", "nodes").filter(|_| !name.is_empty())?;
        self.object(kind, "", name).ok().map(|node| Reference::to(&node))
    }

    fn object(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let entry = self
            .store
            .index()
            .get(&kind.store_key(namespace, name))
            .ok_or_else(|| Failure::not_found(kind, name))?;
        serde_json::from_slice(&entry.value).map_err(|error| {
            tracing::error!(key = %entry.key, %error, "malformed stored object");
            Failure::internal("a stored object cannot be read")
        })
    }
}

/// Sets the name, which a request for a token may omit.
fn complete_name(request: &mut Value, target: &Target) -> Result<(), Failure> {
    let metadata = metadata_mut(request);
    let name = text(metadata, "name");
    if name.is_empty() {
        set(metadata, "name", target.name());
    } else if name != target.name() {
        let path = Path::new("metadata").child("name");
        let fault = "must match the service account name if specified";
        let errors = vec![FieldError::invalid(&path, name, fault)];
        return Err(Failure::invalid(&TOKEN_REQUEST, target.name(), &errors));
    }
    Ok(())
}

/// Writes the granted audiences and lifetime to the spec.
fn set_granted(request: &mut Value, audiences: Vec<String>, lifetime_seconds: i64) {
    if let Some(spec) = request.get_mut("spec").filter(|spec| spec.is_object()) {
        set(spec, "audiences", audiences);
        set(spec, "expirationSeconds", lifetime_seconds);
    } else {
        let spec =
            json!({"audiences": audiences, "expirationSeconds": lifetime_seconds, "boundObjectRef": null});
        set(request, "spec", spec);
    }
}

fn expiration_seconds(spec: &Value) -> Result<i64, Failure> {
    let seconds = spec
        .get("expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(EXPIRATION_SECONDS_DEFAULT);
    let problem = match seconds {
        ..EXPIRATION_SECONDS_MIN => "may not specify a duration less than 10 minutes",
        EXPIRATION_SECONDS_MIN..=EXPIRATION_SECONDS_MAX => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec").child("expirationSeconds");
    let errors: FieldErrors = vec![FieldError::invalid(&path, seconds, problem)];
    // As upstream, without the name.
    Err(Failure::invalid(&TOKEN_REQUEST, "", &errors))
}
