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
    assert_eq!(accepted(old_table), Some((Table, Json)));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(accepted(metadata), Some((MetadataList, Protobuf)));
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
fn order_of_media_types_is_that_of_upstream() {
    use Encoding::*;
    let encoding = |value| accepted(value).map(|(_, encoding)| encoding);
    for (value, expected) in [
        ("*/*, application/yaml", Yaml),
        ("application/yaml;q=0.5, */*", Json),
        // A media type without wildcard precedes a wildcard that is before it, also with a lower weight.
        ("*/*, application/yaml;q=0.5", Yaml),
        ("application/json;q=x, application/yaml;q=0.1", Yaml),
        ("application/json;q=0, text/html", Json),
        ("application/json;Q=0.1, application/yaml", Json),
        ("application/json/x, application/yaml", Yaml),
    ] {
        assert_eq!(encoding(value), Some(expected), "{value}");
    }
}

#[test]
fn parameters_without_effect_are_ignored() {
    for value in [
        "application/json;stream=",
        "application/json;charset=latin1",
        "application/json;as=;g=;v=",
        "application/json;a=b=c",
        "application/json;foo=bar",
        "*/*;pretty=0",
    ] {
        let plain = Some((Representation::Objects, Encoding::Json));
        assert_eq!(accepted(value), plain, "{value}");
    }
    for value in [
        "application/json;v=v1",
        "application/json;as=Table;v=v1",
        "application/json;sv=v1",
        "application/json;as=Table;as=Nope;g=meta.k8s.io;v=v1",
    ] {
        assert_eq!(accepted(value), None, "{value}");
    }
}

#[test]
fn header_without_served_media_type_is_not_acceptable() {
    for value in [
        "*",
        "application",
        "application/*",
        "text/html",
        "APPLICATION/JSON",
    ] {
        let failure = form(&with(ACCEPT, value), &Query::parse("")).unwrap_err();
        assert!(
            failure.message().starts_with("406: Not Acceptable"),
            "{value}: {}",
            failure.message()
        );
    }
}

#[test]
fn table_and_metadata_have_the_requested_version() {
    for (version, expected) in [("v1", MetaVersion::V1), ("v1beta1", MetaVersion::V1Beta1)] {
        for kind in ["Table", "PartialObjectMetadata", "PartialObjectMetadataList"] {
            let value = format!("application/json;as={kind};g=meta.k8s.io;v={version}");
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(&value).unwrap());
            let form = form(&headers, &Query::parse("")).unwrap();
            assert_eq!(form.meta_version, expected, "{value}");
        }
    }
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
    // The preferred form is selected before the check.
    let yaml_first = with(ACCEPT, "application/yaml, application/json");
    assert_eq!(
        stream_form(&yaml_first, services()).unwrap_err().code().as_u16(),
        406
    );
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
    // Go's `mime.ParseMediaType`, which upstream uses, ignores the case.
    assert_eq!(
        body_format(&with(CONTENT_TYPE, "APPLICATION/JSON")),
        Ok(Format::Json)
    );
    assert!(body_format(&with(CONTENT_TYPE, "*/*")).is_err());
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

/// Upstream: apiserver/pkg/endpoints/handlers/delete.go negotiates the body only if there is one.
#[test]
fn media_type_of_options_counts_with_a_body_only() {
    let headers = with(CONTENT_TYPE, "text/plain");
    assert_eq!(options_format(&headers, b""), Ok(Format::Json));
    assert_eq!(options_format(&headers, b"{}").unwrap_err().code().as_u16(), 415);
    let headers = with(CONTENT_TYPE, "application/yaml");
    assert_eq!(options_format(&headers, b"{}"), Ok(Format::Yaml));
}

#[test]
fn paths_of_json_alone_need_its_name_or_a_full_wildcard() {
    for accept in ["", "*/*", "application/json", "text/html, application/json;q=0.1"] {
        assert!(accepts_plain_json(&with(ACCEPT, accept)), "{accept}");
    }
    assert!(accepts_plain_json(&HeaderMap::new()));
    for accept in ["*", "application/*", "application/yaml", "text/html"] {
        assert!(!accepts_plain_json(&with(ACCEPT, accept)), "{accept}");
    }
}
