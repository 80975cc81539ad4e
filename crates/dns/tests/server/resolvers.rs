//! Interoperability with dig, kdig, drill, glibc, musl and hickory-resolver, each in a network namespace and with a
//! resolv.conf of its own. Programs that are not installed are skipped by name.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use crate::support::objects;
use api::object::Pod;
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Policy, Responder, SearchList, Server};
use dns::wire::Name;
use dns::zone::Zone;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};

/// Endpoints of the headless Service: too many for a datagram of 512 bytes, or of 1,232.
const ENDPOINTS: u8 = 100;
/// Contents of resolv.conf of a Pod in namespace ns.
const RESOLV_CONF: &str = "nameserver 127.0.0.1\nsearch ns.svc.cluster.local svc.cluster.local cluster.local\n\
                           options ndots:5\n";
/// Program that prints the addresses of its arguments, or the error code.
const RESOLVE_C: &str = r#"
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int count, char **names) {
    for (int at = 1; at < count; at++) {
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = 0;
        int code = getaddrinfo(names[at], 0, &hints, &found);
        if (code) printf("%s: %s\n", names[at], code == EAI_NONAME ? "no such name" : "failed");
        for (; !code && found; found = found->ai_next) {
            char text[INET6_ADDRSTRLEN];
            void *address = found->ai_family == AF_INET
                ? (void *)&((struct sockaddr_in *)found->ai_addr)->sin_addr
                : (void *)&((struct sockaddr_in6 *)found->ai_addr)->sin6_addr;
            puts(inet_ntop(found->ai_family, address, text, sizeof text));
        }
    }
}
"#;

fn index() -> Arc<Index> {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    let mut web = objects::service("web", "10.96.0.1");
    web.spec.cluster_ips = ["10.96.0.1", "fd00:96::1"].map(str::to_owned).into();
    web.spec.ports = vec![objects::http()];
    let mut big = objects::service("big", "None");
    big.spec.cluster_ips = vec!["None".to_owned()];
    big.spec.ports = vec![objects::http()];
    for service in [web, big, objects::alias("alias", "web.ns.svc.cluster.local")] {
        index.apply_service(&service).expect("applied");
    }
    index
        .apply_slice(&objects::slice("big", ENDPOINTS))
        .expect("applied");
    index.apply_pod(&pod("127.0.0.1")).expect("applied");
    index.set_synced();
    Arc::new(index)
}

/// Pod of the namespace ns, the source of all queries.
fn pod(address: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = "asking".to_owned();
    pod.metadata.namespace = "ns".to_owned();
    pod.status.pod_ip = address.to_owned();
    pod
}

/// Runs `test` with a server on port 53 of a loopback interface of its own.
fn beside_a_server(search: Option<SearchList>, test: impl FnOnce()) {
    testbed::cover_file("/etc/resolv.conf", RESOLV_CONF).expect("covered");
    if fs::exists("/etc/nsswitch.conf").is_ok_and(|exists| exists) {
        testbed::cover_file("/etc/nsswitch.conf", "hosts: files dns\n").expect("covered");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _within = runtime.enter();
    let policy = Policy {
        search,
        ..Policy::default()
    };
    let responder = Responder::with_policy(
        Arc::new(Zone::new(index())),
        Forwarder::to(Vec::new()),
        policy,
        Arc::default(),
    );
    let address = SocketAddr::from(([127, 0, 0, 1], 53));
    let _server = Server::start(&[address], Arc::new(responder)).expect("port 53 is free here");
    test();
}

/// Returns the output of a program; skips the test if it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) => String::from_utf8(output.stdout).expect("text"),
        Err(error) => testbed::skip_inside(&format!("{program}: {error}")),
    }
}

/// Addresses among the words of a text, sorted, without duplicates.
fn addresses(text: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn web() -> Vec<IpAddr> {
    ["10.96.0.1", "fd00:96::1"]
        .map(|text| text.parse().expect("an address"))
        .into()
}

fn big() -> Vec<IpAddr> {
    (0..ENDPOINTS).map(|last| [10, 1, 0, last].into()).collect()
}

/// Checks the lookups that every resolver of a C library must perform; `print` returns the output for a name. A
/// headless Service has `at_least` addresses.
fn check_library(at_least: usize, print: impl Fn(&str) -> String) {
    for name in [
        "web",
        "web.ns",
        "web.ns.svc",
        "web.ns.svc.cluster.local",
        "WEB.ns.svc.cluster.local.",
    ] {
        assert_eq!(addresses(&print(name)), web(), "{name}");
    }
    // musl accepts 48 addresses at most, and before 1.2.4 those that fit into 512 bytes.
    let found = addresses(&print("big"));
    assert!(
        found.len() >= at_least && found.iter().all(|address| big().contains(address)),
        "{found:?}"
    );
    assert_eq!(addresses(&print("absent")), [] as [IpAddr; 0]);
}

/// Checks the output of `program` for addresses, PTR records, NXDOMAIN and long responses; `over_tcp` are its options
/// for TCP.
fn check_tool(program: &str, over_tcp: &[&str]) {
    let query = |arguments: &[&str]| output_of(program, &[&["@127.0.0.1"], arguments].concat());
    let text = query(&["web.ns.svc.cluster.local", "A"]);
    assert!(text.contains("NOERROR") && text.contains("10.96.0.1"), "{text}");
    let text = query(&["web.ns.svc.cluster.local", "AAAA"]);
    assert!(text.contains("fd00:96::1"), "{text}");
    let text = query(&["1.0.96.10.in-addr.arpa", "PTR"]);
    assert!(text.contains("web.ns.svc.cluster.local."), "{text}");
    let text = query(&["absent.ns.svc.cluster.local", "A"]);
    assert!(text.contains("NXDOMAIN") && text.contains("SOA"), "{text}");
    let text = query(&["dns-version.cluster.local", "TXT"]);
    assert!(text.contains("\"1.1.0\""), "{text}");
    let text = query(&[over_tcp, &["big.ns.svc.cluster.local", "A"]].concat());
    let found = addresses(&text);
    assert!(
        big().iter().all(|address| found.contains(address)),
        "over TCP: {text}"
    );
    for complaint in ["malformed", "Malformed", "extra bytes", "trailing"] {
        assert!(!text.contains(complaint), "{text}");
    }
}

#[test]
fn dig_accepts_responses() {
    testbed::in_namespace(|| beside_a_server(None, || check_tool("dig", &[])));
}

#[test]
fn kdig_accepts_responses() {
    testbed::in_namespace(|| beside_a_server(None, || check_tool("kdig", &[])));
}

#[test]
fn drill_accepts_responses() {
    testbed::in_namespace(|| beside_a_server(None, || check_tool("drill", &["-t"])));
}

#[test]
fn glibc_accepts_responses() {
    testbed::in_namespace(|| {
        beside_a_server(None, || {
            check_library(big().len(), |name| output_of("getent", &["ahosts", name]))
        });
    });
}

#[test]
fn glibc_accepts_aliases_to_search_results() {
    testbed::in_namespace(|| {
        beside_a_server(Some(SearchList::new(Vec::new())), || {
            check_library(big().len(), |name| output_of("getent", &["ahosts", name]));
        });
    });
}

/// A static program that resolves with musl.
fn musl_program() -> String {
    let program = format!("{}/resolve", testbed::RUN_DIRECTORY);
    let source = format!("{program}.c");
    fs::write(&source, RESOLVE_C).expect("written");
    let output = output_of("musl-gcc", &["-static", "-o", &program, &source]);
    assert!(
        fs::exists(&program).is_ok_and(|exists| exists),
        "compiled: {output}"
    );
    program
}

#[test]
fn musl_accepts_responses() {
    testbed::in_namespace(|| {
        let program = musl_program();
        beside_a_server(None, || check_library(20, |name| output_of(&program, &[name])));
    });
}

#[test]
fn musl_accepts_aliases_to_search_results() {
    testbed::in_namespace(|| {
        let program = musl_program();
        beside_a_server(Some(SearchList::new(Vec::new())), || {
            check_library(20, |name| output_of(&program, &[name]));
        });
    });
}

/// A resolver with the configuration of a Pod.
fn hickory() -> TokioResolver {
    let search = RESOLV_CONF
        .lines()
        .find_map(|line| line.strip_prefix("search "))
        .expect("a search list")
        .split(' ')
        .map(|domain| domain.parse().expect("a name"))
        .collect();
    let server = NameServerConfig::udp_and_tcp([127, 0, 0, 1].into());
    let config = ResolverConfig::from_parts(None, search, vec![server]);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.ndots = 5;
    options.use_hosts_file = ResolveHosts::Never;
    builder.build().expect("a resolver")
}

/// Returns the records that `resolver` finds for a type, as sorted text; `Err` contains true for NXDOMAIN.
async fn found(resolver: &TokioResolver, name: &str, kind: RecordType) -> Result<Vec<String>, bool> {
    let lookup = resolver
        .lookup(name, kind)
        .await
        .map_err(|error| error.is_nx_domain())?;
    let mut texts: Vec<String> = lookup
        .answers()
        .iter()
        .map(|record| match &record.data {
            RData::SRV(srv) => format!("{} {}", srv.port, srv.target),
            other => other.to_string(),
        })
        .collect();
    texts.sort_unstable();
    Ok(texts)
}

async fn check_hickory(resolver: &TokioResolver) {
    const WEB: &str = "web.ns.svc.cluster.local.";
    let texts = |texts: &[&str]| Ok(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(found(resolver, WEB, RecordType::A).await, texts(&["10.96.0.1"]));
    assert_eq!(
        found(resolver, WEB, RecordType::AAAA).await,
        texts(&["fd00:96::1"])
    );
    assert_eq!(
        found(resolver, "_http._tcp.web.ns.svc.cluster.local.", RecordType::SRV).await,
        texts(&["80 web.ns.svc.cluster.local."])
    );
    assert_eq!(
        found(resolver, "1.0.96.10.in-addr.arpa.", RecordType::PTR).await,
        texts(&[WEB])
    );
    assert_eq!(
        found(resolver, "absent.ns.svc.cluster.local.", RecordType::A).await,
        Err(true),
        "denied"
    );
    assert_eq!(
        found(resolver, WEB, RecordType::MX).await,
        Err(false),
        "the name exists, without such a record"
    );
    let alias = found(resolver, "alias.ns.svc.cluster.local.", RecordType::A).await;
    let alias = alias.expect("an answer");
    assert!(alias.contains(&"10.96.0.1".to_owned()), "{alias:?}");
    let all = found(resolver, "big.ns.svc.cluster.local.", RecordType::A).await;
    assert_eq!(
        all.expect("what is cut is had over TCP").len(),
        usize::from(ENDPOINTS)
    );
    for name in ["web", "web.ns", "web.ns.svc", "web.ns.svc.cluster.local"] {
        let mut addresses: Vec<IpAddr> = resolver
            .lookup_ip(name)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .iter()
            .collect();
        addresses.sort_unstable();
        assert_eq!(addresses, web(), "{name}");
    }
    assert!(resolver.lookup_ip("absent").await.is_err());
}

#[test]
fn hickory_accepts_responses() {
    testbed::in_namespace(|| {
        beside_a_server(None, || {
            tokio::runtime::Handle::current().block_on(check_hickory(&hickory()));
        });
    });
}

#[test]
fn hickory_accepts_aliases_to_search_results() {
    testbed::in_namespace(|| {
        beside_a_server(Some(SearchList::new(Vec::new())), || {
            tokio::runtime::Handle::current().block_on(check_hickory(&hickory()));
        });
    });
}
