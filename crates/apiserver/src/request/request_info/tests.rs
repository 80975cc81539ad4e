use super::*;

fn info(method: &str, uri: &str) -> RequestInfo {
    let request = Request::builder().method(method).uri(uri).body(());
    let request = request.expect("a valid request");
    let accept = Accept::of(request.headers());
    RequestInfo::of(&request, accept)
}

fn served(method: &str, uri: &str) -> Option<Verb> {
    let info = info(method, uri);
    let target = info.target().expect("a resource path");
    served_verb(target, &info.method, info.verb).ok()
}

#[test]
fn verb_follows_method_name_and_watch_parameter() {
    let web = "/api/v1/namespaces/default/services/web";
    let all = "/api/v1/namespaces/default/services";
    assert_eq!(info("HEAD", web).verb_name(), "get");
    assert_eq!(info("GET", &format!("{web}?watch=1")).verb_name(), "get");
    assert_eq!(info("GET", &format!("{all}?watch=1")).verb_name(), "watch");
    assert_eq!(info("GET", "/api/v1/watch/services").verb_name(), "watch");
    assert_eq!(info("DELETE", all).verb_name(), "deletecollection");
    assert_eq!(info("TRACE", web).verb_name(), "");
    assert_eq!(info("GET", "/version").verb, None);
}

#[test]
fn served_verbs_match_discovery() {
    let web = "/api/v1/namespaces/default/services/web";
    let all = "/api/v1/namespaces/default/services";
    assert_eq!(served("POST", all), Some(Verb::Create));
    assert_eq!(served("POST", web), None);
    assert_eq!(served("PUT", all), None);
    assert_eq!(served("PATCH", all), None);
    assert_eq!(served("POST", "/api/v1/services"), None);
    assert_eq!(served("DELETE", "/api/v1/services"), None);
    assert_eq!(served("GET", "/api/v1/services"), Some(Verb::List));
    assert_eq!(served("OPTIONS", web), None);
    assert_eq!(served("HEAD", web), None);
    assert_eq!(served("HEAD", &format!("{web}/proxy")), Some(Verb::Get));
    assert_eq!(served("OPTIONS", &format!("{web}/proxy")), Some(Verb::Get));
    assert_eq!(served("POST", &format!("{web}/proxy/a")), Some(Verb::Create));
}

#[test]
fn invalid_field_selector_is_absent() {
    let all = "/api/v1/namespaces/default/services?fieldSelector=";
    assert!(
        info("GET", &format!("{all}metadata.name=web"))
            .field_selector
            .is_some()
    );
    assert!(
        info("GET", &format!("{all}no.such.field=1"))
            .field_selector
            .is_none()
    );
    assert!(info("GET", all).field_selector.is_none());
}
