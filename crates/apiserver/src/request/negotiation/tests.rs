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

fn wanted(value: &'static str) -> Option<(Representation, Encoding)> {
    wanted_of(services(), value)
}

fn wanted_of(kind: &Kind, value: &'static str) -> Option<(Representation, Encoding)> {
    let form = form(&with(ACCEPT, value), &Query::parse(""), kind).ok()?;
    Some((form.representation, form.encoding))
}

#[test]
fn the_first_served_form_counts() {
    use Encoding::*;
    use Representation::*;
    assert_eq!(
        form(&HeaderMap::new(), &Query::parse(""), services()),
        Ok(Form::PLAIN)
    );
    let kubectl_get = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(wanted(kubectl_get), Some((Table, Json)));
    let client_go = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(wanted(client_go), Some((Objects, Protobuf)));
    let table_first = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, application/json";
    assert_eq!(wanted(table_first), Some((Objects, Json)));
    let old_table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io, */*";
    assert_eq!(wanted(old_table), Some((Objects, Json)));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(wanted(metadata), Some((Metadata, Protobuf)));
    assert_eq!(
        wanted("application/json;q=0.1, application/yaml;q=0.9"),
        Some((Objects, Yaml))
    );
    assert_eq!(wanted("text/html, */*;q=0.8"), Some((Objects, Json)));
    assert_eq!(wanted("application/json;pretty=1"), Some((Objects, PrettyJson)));
    assert_eq!(wanted("application/json;stream=follow"), None);
    assert_eq!(wanted("text/html"), None);
}

#[test]
fn a_kind_without_protobuf_is_served_in_what_else_the_client_takes() {
    let pools = api::kind::find("portolan.dev", "v1alpha1", "addresspools").unwrap();
    let client_go = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(
        wanted_of(pools, client_go),
        Some((Representation::Objects, Encoding::Json))
    );
    let stream = stream_form(&with(ACCEPT, client_go), pools).unwrap();
    assert_eq!(stream.encoding, Encoding::Json);
    let only = "application/vnd.kubernetes.protobuf";
    assert_eq!(wanted_of(pools, only), None);
    assert_eq!(
        stream_form(&with(ACCEPT, only), pools)
            .unwrap_err()
            .code()
            .as_u16(),
        406
    );
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(
        wanted_of(pools, metadata),
        Some((Representation::Metadata, Encoding::Protobuf))
    );
}

#[test]
fn people_get_line_breaks_unless_they_say_no() {
    let curl = with(USER_AGENT, "curl/8.5.0");
    let encoding = |query| form(&curl, &Query::parse(query), services()).unwrap().encoding;
    assert_eq!(encoding(""), Encoding::PrettyJson);
    assert_eq!(encoding("pretty=false"), Encoding::Json);
    let nobody = form(&HeaderMap::new(), &Query::parse("pretty=true"), services()).unwrap();
    assert_eq!(nobody.encoding, Encoding::PrettyJson);
}

#[test]
fn a_watch_has_no_yaml() {
    let refused = stream_form(&with(ACCEPT, "application/yaml"), services()).unwrap_err();
    assert_eq!(refused.code().as_u16(), 406);
    let protobuf = with(ACCEPT, "application/vnd.kubernetes.protobuf;stream=watch");
    assert_eq!(
        stream_form(&protobuf, services()).unwrap().encoding,
        Encoding::Protobuf
    );
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
