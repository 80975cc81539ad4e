use http::HeaderMap;
use http::header::USER_AGENT;
use store::Revision;

use super::*;

fn list(query: &str) -> Result<ListOptions, u16> {
    ListOptions::read(&Query::parse(query)).map_err(|failure| failure.code().as_u16())
}

#[test]
fn decodes_valid_escapes_only() {
    let query = Query::parse("labelSelector=x%3D1&fieldManager=p+q&continue=100%&container=%zz&pretty");
    assert_eq!(query.text("labelSelector"), "x=1");
    assert_eq!(query.text("fieldManager"), "p q");
    assert_eq!(query.text("continue"), "100%");
    assert_eq!(query.text("container"), "%zz");
    assert_eq!(query.flag("pretty"), Some(true));
    assert_eq!(query.flag("watch"), None);
    assert_eq!(decode_segment("a+b%2Fc"), "a+b/c");
}

#[test]
fn keeps_known_parameters_only() {
    assert!(KNOWN_PARAMETERS.is_sorted());
    let query = Query::parse("a=1&watch=false&b&w%61tch=true&dryRun=All&dryRun=All");
    assert_eq!(query.flag("watch"), Some(false), "the first value counts");
    assert_eq!(query.all("dryRun").count(), 2);
    assert_eq!(query.parameters.len(), 3);
}

#[test]
fn limits_repeated_values() {
    let query = Query::parse(&"exclude=a&".repeat(10_000));
    assert_eq!(query.all("exclude").count(), REPEATED_VALUES_MAX);
    assert_eq!(query.text.len(), REPEATED_VALUES_MAX);
}

#[test]
fn reads_list_options() {
    let options = list("limit=5&resourceVersion=7&resourceVersionMatch=Exact&watch=0").unwrap();
    assert_eq!(options.limit, Some(5));
    assert_eq!(options.version, Some(Revision(7)));
    assert_eq!(options.version_match, Some(VersionMatch::Exact));
    assert!(!options.watch);
    assert_eq!(list("limit=0").unwrap().limit, None);
}

#[test]
fn rejects_contradictory_list_options() {
    assert_eq!(list("resourceVersion=abc"), Err(400));
    assert_eq!(list("resourceVersion=%2B1"), Err(400));
    assert_eq!(list("resourceVersion=99999999999999999999"), Err(400));
    assert_eq!(list("watch=1&resourceVersion=abc"), Err(500));
    assert_eq!(list("limit=many"), Err(400));
    assert_eq!(list("resourceVersionMatch=Exact"), Err(422));
    assert_eq!(list("resourceVersion=0&resourceVersionMatch=Exact"), Err(422));
    assert_eq!(list("resourceVersion=1&resourceVersionMatch=Sideways"), Err(422));
    assert_eq!(list("watch=1&sendInitialEvents=true"), Err(422));
    // Upstream: apimachinery/pkg/apis/meta/internalversion/defaults.go, `SetListOptionsDefaults`.
    assert_eq!(list("watch=1&continue=abc"), Err(422));
    assert!(list("watch=1&continue=abc&resourceVersion=5").is_ok());
    assert!(list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
}

#[test]
fn reads_write_options() {
    let headers = HeaderMap::from_iter([(USER_AGENT, "kubectl/v1.32 (x)".parse().unwrap())]);
    let query = Query::parse("dryRun=All&fieldValidation=Strict");
    let options = WriteOptions::read(&query, &headers, "CreateOptions").unwrap();
    assert!(options.dry_run);
    assert_eq!(options.field_validation, FieldValidation::Strict);
    assert_eq!(options.manager, "kubectl");
    let query = Query::parse("dryRun=Some");
    let failure = WriteOptions::read(&query, &headers, "CreateOptions").unwrap_err();
    assert_eq!(failure.status()["details"]["kind"], "CreateOptions");
    assert_eq!(failure.status()["details"]["causes"][0]["field"], "dryRun");
}

#[test]
fn apply_requires_a_manager_and_patch_rejects_force() {
    let headers = HeaderMap::from_iter([(USER_AGENT, "kubectl/v1.32 (x)".parse().unwrap())]);
    let read = |query: &str, is_apply| {
        let query = Query::parse(query);
        let options = WriteOptions::read_patch(&query, &headers, is_apply);
        options
            .map(|options| (options.manager.to_owned(), options.force))
            .map_err(|failure| failure.status()["details"]["causes"][0]["field"].clone())
    };
    assert_eq!(
        read("fieldManager=me&force=true", true),
        Ok(("me".into(), Some(true)))
    );
    assert_eq!(read("force=true", true), Err("fieldManager".into()));
    assert_eq!(read("", false), Ok(("kubectl".into(), None)));
    assert_eq!(read("force=false", false), Err("force".into()));
    assert_eq!(read("fieldManager=a%0Ab", false), Err("fieldManager".into()));
    let long = format!("fieldManager={}", "x".repeat(129));
    assert_eq!(read(&long, false), Err("fieldManager".into()));
}

#[test]
fn reads_delete_options_from_body_or_query() {
    let json = api::decode::Format::Json;
    let query = Query::parse("gracePeriodSeconds=0&propagationPolicy=Foreground");
    let options = DeleteOptions::read(&query, b"", json).unwrap();
    assert_eq!(options.grace_period_seconds, Some(0));
    assert_eq!(options.propagation, Some(Propagation::Foreground));
    let body = br#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"propagationPolicy":"Orphan"}"#;
    let options = DeleteOptions::read(&query, body, json).unwrap();
    assert_eq!(options.uid.as_deref(), Some("u"));
    assert_eq!(options.grace_period_seconds, None);
    assert_eq!(options.propagation, Some(Propagation::Orphan));
    let invalid = Query::parse("propagationPolicy=Sideways");
    assert_eq!(
        DeleteOptions::read(&invalid, b"", json)
            .unwrap_err()
            .code()
            .as_u16(),
        422
    );
}
