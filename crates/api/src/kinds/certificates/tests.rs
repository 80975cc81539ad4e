use serde_json::{Value, json};

use super::*;

/// Request for `system:node:n1` of `system:nodes`, with the name `n1` and the address 192.0.2.1; self-signed.
const NODE: &str = include_str!("tests/node.csr");

fn request(pem: &str) -> Value {
    use base64::Engine as _;
    let request = base64::engine::general_purpose::STANDARD.encode(pem);
    json!({"metadata": {"name": "csr-1"}, "spec": {"request": request, "signerName": NODE_SERVING_SIGNER,
           "usages": ["digital signature", "server auth"]}, "status": {}})
}

fn with_condition(mut object: Value, kind: &str) -> Value {
    object["status"]["conditions"] = json!([{"type": kind, "status": "True"}]);
    object
}

fn messages(errors: Vec<crate::machinery::field::FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn request_contains_subject_and_names() {
    let request = Request::parse(NODE.as_bytes()).unwrap();
    assert_eq!(request.node_name(), Some("n1"));
    assert_eq!(request.dns_names, ["n1"]);
    assert_eq!(
        request.ip_addresses,
        ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]
    );
    assert!(!request.has_no_names());
}

#[test]
fn rejects_malformed_requests_by_cause() {
    let is = |text: &str| Request::parse(text.as_bytes()).unwrap_err();
    assert_eq!(is(""), RequestError::Pem);
    assert_eq!(is(&NODE.replace("REQUEST", "THING")), RequestError::Pem);
    let lines: Vec<&str> = NODE.lines().collect();
    let cut = [lines[0], lines[1], lines[lines.len() - 1]].join("\n");
    assert_eq!(is(&cut), RequestError::Der);
    // Changes one letter of the signature.
    let last = lines[lines.len() - 2];
    let swapped: String = last.chars().rev().skip(4).chain(['A', 'A', 'A', 'A']).collect();
    assert_ne!(
        Request::parse(NODE.replace(last, &swapped).as_bytes()),
        Request::parse(NODE.as_bytes())
    );
}

#[test]
fn requires_signer_usages_and_key() {
    assert_eq!(messages(validate(&request(NODE))), Vec::<String>::new());
    let mut invalid = request("");
    invalid["spec"]["usages"] = json!(["server auth", "server auth", "flying"]);
    invalid["spec"]["signerName"] = json!("nobody");
    invalid["spec"]["expirationSeconds"] = json!(599);
    let messages_text = messages(validate(&invalid)).join("\n");
    for part in [
        "spec.request: ",
        "spec.usages[1]: Duplicate",
        "spec.usages[2]: Unsupported",
        "spec.signerName: ",
        "spec.expirationSeconds: ",
    ] {
        assert!(messages_text.contains(part), "{part} in {messages_text}");
    }
}

#[test]
fn decision_is_final_and_has_its_own_path() {
    let pending = request(NODE);
    let approved = with_condition(pending.clone(), condition::APPROVED);
    let denied = with_condition(pending.clone(), condition::DENIED);
    assert!(validate_approval_update(&approved, &pending).is_empty());
    assert_eq!(validate_approval_update(&denied, &approved).len(), 1);
    assert_eq!(validate_status_update(&approved, &pending).len(), 1);
    let failed = with_condition(pending.clone(), condition::FAILED);
    assert!(validate_status_update(&failed, &pending).is_empty());
    let mut both = approved.clone();
    both["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]);
    assert_eq!(validate_approval_update(&both, &approved).len(), 1);
}

#[test]
fn updates_keep_the_spec() {
    let old = request(NODE);
    let mut new = with_condition(old.clone(), condition::APPROVED);
    new["spec"]["usages"] = json!(["any"]);
    let mut decided = new.clone();
    prepare_approval_update(&mut decided, &old);
    assert_eq!(decided["spec"], old["spec"]);
    assert_eq!(decided["status"], new["status"]);
    prepare_update(&mut new, &old);
    assert_eq!(new, old);
}
