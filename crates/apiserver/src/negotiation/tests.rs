use http::HeaderValue;

use super::*;

fn with(name: http::HeaderName, value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_static(value));
    headers
}

fn accepted(value: &'static str) -> Option<Representation> {
    representation(&with(ACCEPT, value)).ok()
}

#[test]
fn the_first_served_form_counts() {
    assert_eq!(representation(&HeaderMap::new()), Ok(Representation::Objects));
    let kubectl_get = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(accepted(kubectl_get), Some(Representation::Table));
    let client_go = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(accepted(client_go), Some(Representation::Objects));
    let old_table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, */*";
    assert_eq!(accepted(old_table), Some(Representation::Objects));
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(accepted(metadata), Some(Representation::Metadata));
    assert_eq!(accepted("text/html"), None);
}

#[test]
fn aggregated_discovery_is_told_from_plain() {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert!(accepts_aggregated_discovery(&with(ACCEPT, aggregated)));
    assert!(!accepts_aggregated_discovery(&with(ACCEPT, "application/json")));
}

#[test]
fn bodies_that_cannot_be_read_are_refused_with_advice() {
    assert_eq!(
        body_format(&with(CONTENT_TYPE, "application/json; charset=utf-8")),
        Ok(Format::Json)
    );
    assert_eq!(
        body_format(&with(CONTENT_TYPE, "application/yaml")),
        Ok(Format::Yaml)
    );
    assert_eq!(
        body_format(&with(CONTENT_TYPE, "application/vnd.kubernetes.protobuf")),
        Ok(Format::Protobuf)
    );
    let unknown = body_format(&with(CONTENT_TYPE, "application/cbor")).unwrap_err();
    assert_eq!(unknown.code().as_u16(), 415);
    assert!(unknown.message().contains("application/vnd.kubernetes.protobuf"));
    let form = |media_type| patch_form(&with(CONTENT_TYPE, media_type));
    assert_eq!(
        form("application/merge-patch+json"),
        Ok(PatchForm::Patch(PatchFormat::Merge))
    );
    assert_eq!(form("application/apply-patch+yaml"), Ok(PatchForm::Apply));
    let refused = form("application/apply-patch+cbor").unwrap_err();
    assert_eq!(refused.code().as_u16(), 415);
}
