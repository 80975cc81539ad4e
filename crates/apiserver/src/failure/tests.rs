use api::field::{FieldError, Path};
use api::kind::find;
use store::StoreError;

use super::*;

#[test]
fn not_found_names_the_resource() {
    let slices = find("discovery.k8s.io", "v1", "endpointslices").unwrap();
    let status = Failure::not_found(slices, "web-1").status();
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "endpointslices.discovery.k8s.io \"web-1\" not found",
            "reason": "NotFound",
            "details": {"name": "web-1", "group": "discovery.k8s.io", "kind": "endpointslices"},
            "code": 404
        })
    );
}

#[test]
fn invalid_names_the_kind_and_lists_causes() {
    let services = find("", "v1", "services").unwrap();
    let path = Path::new("spec").child("ports");
    let errors = vec![
        FieldError::required(&path, ""),
        FieldError::forbidden(&path, "no"),
    ];
    let status = Failure::invalid(services, "web", &errors).status();
    assert_eq!(
        status["message"],
        "Service \"web\" is invalid: [spec.ports: Required value, spec.ports: Forbidden: no]"
    );
    assert_eq!(status["details"]["kind"], "Service");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.ports");
    assert_eq!(status["details"]["causes"][1]["reason"], "FieldValueForbidden");
    assert_eq!(status["code"], 422);
}

#[test]
fn store_errors_map_to_status_codes() {
    let compacted = StoreError::Compacted {
        requested: Revision(1),
        oldest: Revision(5),
    };
    assert_eq!(Failure::of_read(&compacted).code(), StatusCode::GONE);
    let future = StoreError::Future {
        requested: Revision(9),
        current: Revision(5),
    };
    let failure = Failure::of_read(&future);
    assert_eq!(failure.code(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(
        failure.status()["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
}

#[test]
fn invalid_names_a_bounded_number_of_errors() {
    let services = find("", "v1", "services").unwrap();
    let path = Path::new("spec").child("ports");
    let errors: Vec<FieldError> = (0..100_000)
        .map(|number| FieldError::required(&path.index(number), ""))
        .collect();
    let status = Failure::invalid(services, "web", &errors).status();
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), ERRORS_NAMED_MAX);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("spec.ports[999]: Required value, and 99000 further errors]"),
        "{message}"
    );
}
