//! Admission of CertificateSigningRequests: sets the requester, refuses certificates for `system:masters`, and
//! checks that approvers and signers are permitted for the signer.

use api::certificates::{CLIENT_SIGNER, GROUP, Request};
use api::rbac::Action;
use api::tree::{child, set, set_or_clear, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Admission, AdmissionPlugin, WriteAttempt};
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, AuthorizationDecision};
use crate::failure::Failure;

/// The group with all rights.
const MASTERS: &str = "system:masters";

/// Admits a new request, an approval, or a signature.
pub(super) fn admit(
    admission: &Admission,
    attempt: &WriteAttempt<'_>,
    object: &mut Value,
) -> Result<(), Failure> {
    let Some(requester) = attempt.requester else {
        return Ok(());
    };
    let kind = attempt.target.kind;
    let refused = |message: &str| Err(Failure::forbidden(kind, attempt.target.name(), message));
    let Some(stored) = attempt.stored else {
        set_requester(object, requester);
        let is_restricted =
            admission.has(AdmissionPlugin::CertificateSubjectRestriction) && requests_all_rights(object);
        return if is_restricted {
            refused(&format!(
                "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            ))
        } else {
            Ok(())
        };
    };
    let (plugin, verb) = match attempt.target.subresource {
        Some("approval") => (AdmissionPlugin::CertificateApproval, "approve"),
        Some("status") if certificate(stored) != certificate(object) => {
            (AdmissionPlugin::CertificateSigning, "sign")
        }
        _ => return Ok(()),
    };
    // The stored signer counts: the signer of a request never changes.
    let signer = text(child(stored, "spec"), "signerName");
    if admission.has(plugin) && !may_use_signer(admission, requester, verb, signer) {
        return refused(&format!(
            "user not permitted to {verb} requests with signerName {signer:?}"
        ));
    }
    Ok(())
}

/// Returns true if the user may use `verb` on the signer, or on all signers of its domain.
fn may_use_signer(admission: &Admission, requester: &Identity, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let action = Action::Resource {
            verb,
            group: GROUP,
            resource: "signers",
            subresource: "",
            name,
        };
        let decision = admission
            .authorizer
            .decide(&Attributes::new(requester, "", action));
        matches!(decision, AuthorizationDecision::Allowed(_))
    })
}

/// Sets the identity of the requester, which overrides the one in the request.
fn set_requester(object: &mut Value, requester: &Identity) {
    let mut spec = child(object, "spec").clone();
    let some = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    set_or_clear(&mut spec, "username", some(&requester.user));
    set_or_clear(&mut spec, "uid", some(&requester.uid));
    set(&mut spec, "groups", requester.groups.clone());
    let extra: Map<String, Value> = requester
        .extra
        .iter()
        .map(|(key, values)| (key.clone(), values.clone().into()))
        .collect();
    set_or_clear(&mut spec, "extra", (!extra.is_empty()).then(|| extra.into()));
    set(object, "spec", spec);
}

fn requests_all_rights(object: &Value) -> bool {
    let spec = child(object, "spec");
    let pem = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    // Validation rejects an unreadable request.
    text(spec, "signerName") == CLIENT_SIGNER
        && Request::parse(&pem)
            .is_ok_and(|request| request.organizations.iter().any(|group| group == MASTERS))
}

fn certificate(object: &Value) -> &str {
    text(child(object, "status"), "certificate")
}
