//! Requests for certificates: they say who asks, nobody asks for all rights, and who decides and signs may do so for
//! that signer.

use api::certificates::{CLIENT_SIGNER, GROUP, Request};
use api::rbac::Action;
use api::tree::{child, set, set_or_clear, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Admission, AdmissionPlugin, Attempt};
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, Verdict};
use crate::failure::Failure;

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";

/// Admits a new request, a decision about one, or its signature.
pub(super) fn admit(admission: &Admission, attempt: &Attempt<'_>, object: &mut Value) -> Result<(), Failure> {
    let Some(requester) = attempt.requester else {
        return Ok(());
    };
    let kind = attempt.target.kind;
    let refused = |why: &str| Err(Failure::forbidden(kind, attempt.target.name(), why));
    let Some(stored) = attempt.stored else {
        set_requester(object, requester);
        let is_refused =
            admission.has(AdmissionPlugin::CertificateSubjectRestriction) && asks_for_all(object);
        return match is_refused {
            true => refused(&format!(
                "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            )),
            false => Ok(()),
        };
    };
    let (plugin, verb) = match attempt.target.subresource {
        Some("approval") => (AdmissionPlugin::CertificateApproval, "approve"),
        Some("status") if certificate(stored) != certificate(object) => {
            (AdmissionPlugin::CertificateSigning, "sign")
        }
        _ => return Ok(()),
    };
    // What is stored counts: the signer of a request never changes.
    let signer = text(child(stored, "spec"), "signerName");
    if admission.has(plugin) && !may(admission, requester, verb, signer) {
        return refused(&format!(
            "user not permitted to {verb} requests with signerName {signer:?}"
        ));
    }
    Ok(())
}

/// Whether somebody may do something for a signer, or for all of the signer's domain.
fn may(admission: &Admission, requester: &Identity, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let action = Action::Resource {
            verb,
            group: GROUP,
            resource: "signers",
            subresource: "",
            name,
        };
        let verdict = admission
            .authorizer
            .decide(&Attributes::new(requester, "", action));
        matches!(verdict, Verdict::Allowed(_))
    })
}

/// Who asks is what the server knows, whatever the request says.
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

fn asks_for_all(object: &Value) -> bool {
    let spec = child(object, "spec");
    let pem = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    // What cannot be read is refused by the rules of the object.
    text(spec, "signerName") == CLIENT_SIGNER
        && Request::parse(&pem)
            .is_ok_and(|request| request.organizations.iter().any(|group| group == MASTERS))
}

fn certificate(object: &Value) -> &str {
    text(child(object, "status"), "certificate")
}
