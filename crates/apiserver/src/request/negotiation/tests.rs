use http::HeaderValue;

use super::*;

fn with(name: http::HeaderName, value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_static(value));
    headers
}

fn services() -> &'static Kind {
    api::kind::find("", "v1", "services").unwrap()
}

fn form(headers: &HeaderMap, query: &Query) -> Result<Form, Failure> {
    Accept::of(headers).form(headers, query, services())
}

fn stream_form(headers: &HeaderMap, kind: &Kind) -> Result<Form, Failure> {
    Accept::of(headers).stream_form(kind)
}

fn accepted(value: &'static str) -> Option<(Representation, Encoding)> {
    accepted_for(services(), value)
}

fn accepted_for(kind: &Kind, value: &'static str) -> Option<(Representation, Encoding)> {
    let headers = with(ACCEPT, value);
    let form = Accept::of(&headers)
        .form(&headers, &Query::parse(""), kind)
        .ok()?;
    Some((form.representation, form.encoding))
}

#[test]
fn selects_the_most_preferred_served_form() {
    use Encoding::*;
    use Representation::*;
    assert_eq!(form(&HeaderMap::new(), &Query::parse("")), Ok(Form::PLAIN));
    let kubectl_get = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(accepted(kubectl_get), Some((Table, Json)));
    let client_go = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(accepted(client_go), Some((Objects, Protobuf)));
    let table_first = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, application/json";
    assert_eq!(accepted(table_first), Some((Objects, Json)));
    let old_table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, */*";
    assert_eq!(accepted(old_table), Some((Objects, Json)));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(accepted(metadata), Some((Metadata, Protobuf)));
    assert_eq!(
        accepted("application/json;q=0.1, application/yaml;q=0.9"),
        Some((Objects, Yaml))
    );
    assert_eq!(accepted("text/html, */*;q=0.8"), Some((Objects, Json)));
    assert_eq!(accepted("application/json;pretty=1"), Some((Objects, PrettyJson)));
    assert_eq!(accepted("application/json;stream=follow"), None);
    assert_eq!(accepted("text/html"), None);
}

#[test]
fn kind_without_protobuf_is_served_in_the_next_accepted_form() {
    let pools = api::kind::find("portolan.dev", "v1alpha1", "addresspools").unwrap();
    let client_go = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(
        accepted_for(pools, client_go),
        Some((Representation::Objects, Encoding::Json))
    );
    let stream = stream_form(&with(ACCEPT, client_go), pools).unwrap();
    assert_eq!(stream.encoding, Encoding::Json);
    let only = "application/vnd.kubernetes.protobuf";
    assert_eq!(accepted_for(pools, only), None);
    assert_eq!(
        stream_form(&with(ACCEPT, only), pools)
            .unwrap_err()
            .code()
            .as_u16(),
        406
    );
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(
        accepted_for(pools, metadata),
        Some((Representation::Metadata, Encoding::Protobuf))
    );
}

#[test]
fn indents_json_on_request() {
    let curl = with(USER_AGENT, "curl/8.5.0");
    let encoding = |query| form(&curl, &Query::parse(query)).unwrap().encoding;
    assert_eq!(encoding(""), Encoding::PrettyJson);
    assert_eq!(encoding("pretty=false"), Encoding::Json);
    let pretty = form(&HeaderMap::new(), &Query::parse("pretty=true")).unwrap();
    assert_eq!(pretty.encoding, Encoding::PrettyJson);
}

#[test]
fn rejects_yaml_for_watches() {
    let refused = stream_form(&with(ACCEPT, "application/yaml"), services()).unwrap_err();
    assert_eq!(refused.code().as_u16(), 406);
    let protobuf = with(ACCEPT, "application/vnd.kubernetes.protobuf;stream=watch");
    assert_eq!(
        stream_form(&protobuf, services()).unwrap().encoding,
        Encoding::Protobuf
    );
}

#[test]
fn distinguishes_aggregated_from_plain_discovery() {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert!(accepts_aggregated_discovery(&with(ACCEPT, aggregated)));
    assert!(!accepts_aggregated_discovery(&with(ACCEPT, "application/json")));
}

#[test]
fn rejects_unknown_body_media_types() {
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
