use super::*;
use crate::port_key::Transport;
use crate::settings::ServiceName;

fn target(name: &str) -> PortKey {
    PortKey {
        service: ServiceName {
            namespace: "default".into(),
            name: name.into(),
        },
        port: 80,
        transport: Transport::Tcp,
    }
}

fn route(path: &str, matching: PathMatching, name: &str) -> Route {
    Route {
        path: path.into(),
        matching,
        target: Some(target(name)),
    }
}

fn exact(path: &str, name: &str) -> Route {
    route(path, PathMatching::Exact, name)
}

fn prefix(path: &str, name: &str) -> Route {
    route(path, PathMatching::Prefix, name)
}

fn host(routes: Vec<Route>) -> HostRoutes {
    HostRoutes {
        routes,
        ..HostRoutes::default()
    }
}

fn found<'t>(table: &'t RouteTable, authority: &str, path: &str) -> &'t str {
    let route = table.find(authority, path);
    route
        .and_then(|route| route.target.as_ref())
        .map_or("", |target| &*target.service.name)
}

#[test]
fn prefix_matches_whole_elements() {
    let mut table = RouteTable::default();
    table.insert("a.com", host(vec![prefix("/foo", "foo"), prefix("/bar/", "bar")]));
    for (path, expected) in [
        ("/foo", "foo"),
        ("/foo/", "foo"),
        ("/foo/x", "foo"),
        ("/foobar", ""),
        ("/bar", "bar"),
        ("/bar/", "bar"),
        ("/bar/x/y", "bar"),
        ("/barx", ""),
        ("/", ""),
        ("*", ""),
    ] {
        assert_eq!(found(&table, "a.com", path), expected, "{path}");
    }
}

#[test]
fn longest_path_precedes_and_exact_precedes_prefix() {
    let mut table = RouteTable::default();
    table.insert(
        "a.com",
        host(vec![
            prefix("/", "root"),
            prefix("/a", "prefix"),
            prefix("/a/", "slash"),
            exact("/a", "exact"),
            prefix("/a/b", "longer"),
            prefix("/a/b", "second"),
        ]),
    );
    for (path, expected) in [
        ("/", "root"),
        ("/x", "root"),
        ("/a", "exact"),
        ("/a/", "prefix"),
        ("/a/b", "longer"),
        ("/a/b/c", "longer"),
    ] {
        assert_eq!(found(&table, "a.com", path), expected, "{path}");
    }
}

#[test]
fn wildcard_matches_one_label() {
    let mut table = RouteTable::default();
    table.insert("*.Example.com", host(vec![prefix("/", "wildcard")]));
    table.insert("a.example.com", host(vec![prefix("/", "exact")]));
    table.insert("", host(vec![prefix("/", "others")]));
    for (authority, expected) in [
        ("a.example.com", "exact"),
        ("A.EXAMPLE.com:8080", "exact"),
        ("a.example.com.", "exact"),
        ("b.example.com", "wildcard"),
        ("c.b.example.com", "others"),
        ("example.com", "others"),
        (".example.com", "others"),
        ("[2001:db8::1]:80", "others"),
    ] {
        assert_eq!(found(&table, authority, "/"), expected, "{authority}");
    }
}

#[test]
fn host_without_a_route_falls_through_only_if_it_may() {
    let mut table = RouteTable::default();
    table.insert("", host(vec![prefix("/", "others")]));
    table.insert("closed.com", host(vec![prefix("/a", "a")]));
    let open = HostRoutes {
        falls_through: true,
        redirects_to_https: Some(443),
        ..host(vec![prefix("/a", "a")])
    };
    table.insert("open.com", open);
    assert_eq!(found(&table, "closed.com", "/b"), "");
    assert_eq!(found(&table, "open.com", "/b"), "others");
    assert_eq!(table.redirect("open.com:80"), Some(443));
    assert_eq!(table.redirect("closed.com"), None);
}

#[test]
fn hosts_below_a_wildcard_may_have_another_owner() {
    let owned = |owner: &str| HostRoutes {
        owner: owner.into(),
        ..host(vec![prefix("/", owner)])
    };
    let mut table = RouteTable::default();
    table.insert("*.shop.test", owned("a"));
    table.insert("x.shop.test", owned("b"));
    table.insert("other.test", owned("a"));
    assert!(table.have_same_owner("y.shop.test", "Z.shop.test:443"));
    assert!(table.have_same_owner("y.shop.test", "other.test"));
    assert!(table.have_same_owner("x.shop.test", "x.shop.test."));
    assert!(!table.have_same_owner("y.shop.test", "x.shop.test"));
    assert!(!table.have_same_owner("y.shop.test", "unknown.test"));
}
