use super::*;

fn target(path: &str) -> Target {
    match route(path) {
        Route::Resource(target) => target,
        other => panic!("{path} is {other:?}"),
    }
}

#[test]
fn parses_objects_and_collections() {
    let all = target("/api/v1/services");
    assert_eq!(
        (all.kind.kind, all.namespace.as_deref(), all.name.as_deref()),
        ("Service", None, None)
    );
    let one = target("/api/v1/namespaces/default/services/web/status");
    assert_eq!(
        (one.namespace(), one.name(), one.subresource),
        ("default", "web", Some("status"))
    );
    assert_eq!(one.key(), "/services/default/web");
    let slice = target("/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/x%2Dy");
    assert_eq!((slice.kind.kind, slice.name()), ("EndpointSlice", "x-y"));
    let address = target("/apis/networking.k8s.io/v1/ipaddresses/fd00::1");
    assert_eq!(address.name(), "fd00::1");
    let usage = target("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b");
    assert_eq!((usage.kind.kind, usage.name()), ("PodMetrics", "b"));
}

#[test]
fn parses_namespaces_as_objects() {
    assert_eq!(target("/api/v1/namespaces/default").kind.kind, "Namespace");
    let status = target("/api/v1/namespaces/default/finalize");
    assert_eq!(
        (status.kind.kind, status.name(), status.subresource),
        ("Namespace", "default", Some("finalize"))
    );
}

#[test]
fn parses_old_watch_paths() {
    let watch = target("/api/v1/watch/namespaces/default/services/web");
    assert!(watch.is_watch_path);
    assert_eq!(watch.name(), "web");
}

#[test]
fn paths_of_unserved_resources_are_unknown() {
    assert!(matches!(
        route("/api/v1/namespaces/default/nonsense"),
        Route::UnknownResource
    ));
    assert!(matches!(route("/api/v9/services"), Route::UnknownResource));
    assert!(matches!(route("/api/v1/services/web"), Route::UnknownResource));
    assert!(matches!(
        route("/api/v1/namespaces/default/nodes"),
        Route::UnknownResource
    ));
    assert!(matches!(
        route("/api/v1/namespaces/a/services/b/status/c"),
        Route::UnknownResource
    ));
    assert!(matches!(
        route("/apis/nonsense.example/v1/things"),
        Route::Unknown
    ));
    assert!(matches!(route("/apis/nonsense.example"), Route::Unknown));
    assert!(matches!(route("/healthz/"), Route::Unknown));
    assert!(matches!(route("/favicon.ico"), Route::Unknown));
}

/// As upstream: its router has no path below a review (`pkg/endpoints/installer.go`).
#[test]
fn reviews_have_no_names() {
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(target(reviews).kind.kind, "SubjectAccessReview");
    let local = "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews";
    assert_eq!(target(local).kind.kind, "LocalSubjectAccessReview");
    for path in [
        format!("{reviews}/x"),
        format!("{reviews}/x/status"),
        format!("{local}/x"),
        "/apis/authorization.k8s.io/v1/localsubjectaccessreviews".to_owned(),
        "/apis/authentication.k8s.io/v1/tokenreviews/x".to_owned(),
    ] {
        assert!(matches!(route(&path), Route::UnknownResource), "{path}");
    }
}

#[test]
fn unserved_subresources_of_pods_are_not_unknown() {
    for name in ["binding", "eviction"] {
        let path = format!("/api/v1/namespaces/a/pods/p/{name}");
        assert!(matches!(route(&path), Route::UnservedSubresource));
        assert!(matches!(route(&format!("{path}/x")), Route::UnknownResource));
        let other = format!("/api/v1/namespaces/a/services/p/{name}");
        assert!(matches!(route(&other), Route::UnknownResource));
        assert!(matches!(
            route(&format!("/api/v1/pods/p/{name}")),
            Route::UnknownResource
        ));
    }
}

#[test]
fn recognizes_documents_and_health_endpoints() {
    assert!(matches!(route("/api"), Route::Document));
    assert!(matches!(route("/apis/"), Route::Document));
    assert!(matches!(route("/apis/discovery.k8s.io/v1"), Route::Document));
    assert!(matches!(route("/openapi/v3/api/v1"), Route::Document));
    assert!(matches!(route("/readyz"), Route::Health));
    assert!(matches!(route("/"), Route::Document));
}

#[test]
fn recognizes_the_list_of_custom_resource_definitions() {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert!(matches!(route(path), Route::CustomResourceDefinitions));
    assert!(matches!(route(&format!("{path}/a.example")), Route::Unknown));
}

#[test]
fn store_keys_parse_back_to_their_objects() {
    for path in [
        "/api/v1/namespaces/default/services/web",
        "/apis/networking.k8s.io/v1/ipaddresses/fd00::1",
    ] {
        let target = target(path);
        let back = Target::at_key(target.kind, &target.key());
        assert_eq!((back.namespace, back.name), (target.namespace, target.name));
    }
}

#[test]
fn proxied_request_keeps_its_path() {
    let proxied = |path: &str| {
        let target = target(path);
        assert_eq!(target.subresource, Some("proxy"));
        (target.name().to_owned(), target.proxy_path.unwrap_or_default())
    };
    let service = "/api/v1/namespaces/d/services/https:web:443/proxy";
    for rest in ["", "/", "/a%2Fb/c", "/a/", "/x//", "/status"] {
        assert_eq!(
            proxied(&format!("{service}{rest}")),
            ("https:web:443".to_owned(), rest.to_owned())
        );
    }
    assert!(matches!(
        route("/api/v1/namespaces/d/endpoints/web/proxy/a"),
        Route::UnknownResource
    ));
}
