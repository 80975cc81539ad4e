mod deploy;
mod multicluster;
mod objects;
mod workloads;

use clap::Parser as _;
use serde_json::Value;

use super::settings::Settings;
use super::{objects as objects_of, render};
use crate::cli::{Cli, Command};

/// URL of the API server in tests.
const SERVER: &str = "--server=https://192.0.2.10:6443";
/// Command lines whose output the tests check.
const VARIANTS: [&[&str]; 10] = [
    &["all", SERVER],
    &[
        "all",
        "controllers",
        "node-local-dns",
        SERVER,
        "--namespace=portolan",
    ],
    &[
        "proxy",
        SERVER,
        "--proxy-mode=iptables",
        "--cluster-cidr=10.244.0.0/16,fd00::/64",
    ],
    &["proxy", "--takeover-from=kube-proxy"],
    &[
        "dns",
        "--takeover-from=coredns",
        "--forward=192.0.2.53",
        "--cluster-domain=example.org",
    ],
    &[
        "dns",
        "node-local-dns",
        SERVER,
        "--cluster-dns=10.96.0.10,fd00:10:96::a",
    ],
    &[
        "controllers",
        SERVER,
        "--takeover-from=kube-controller-manager",
        "--replicas=3",
    ],
    &[
        "pool",
        "--addresses=192.0.2.200-192.0.2.220,2001:db8::/120",
        "--interfaces=eth0,en*",
    ],
    &["balancer", SERVER, "--takeover-from=metallb"],
    &[
        "multicluster",
        "dns",
        SERVER,
        "--cluster-id=east",
        "--clusterset=west,north",
    ],
];

/// Returns the settings of a command line.
fn settings(arguments: &[&str]) -> Result<Settings, String> {
    let words = ["portolan", "manifests"].iter().chain(arguments);
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Manifests(flags) = cli.command else {
        panic!("another subcommand: {arguments:?}");
    };
    Settings::of(&flags).map_err(|error| error.to_string())
}

/// Returns the output of a command line.
fn output(arguments: &[&str]) -> String {
    let settings = settings(arguments).expect("valid flags");
    render(&settings).expect("manifests")
}

/// Returns the objects of a command line.
fn objects(arguments: &[&str]) -> Vec<Value> {
    objects_of(&settings(arguments).expect("valid flags")).expect("objects")
}

/// Returns the error of a command line.
fn error(arguments: &[&str]) -> String {
    settings(arguments).expect_err("invalid flags")
}

/// Returns the only object of a kind and name.
fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "{kind} {name} is there twice");
    object
}

#[test]
fn output_parses_to_the_objects() {
    for arguments in VARIANTS {
        let parsed: Vec<Value> = serde_saphyr::from_multiple(&output(arguments)).expect("YAML");
        assert_eq!(parsed, objects(arguments), "{arguments:?}");
    }
}

#[test]
fn output_starts_with_the_steps_of_a_take_over() {
    let text = output(&["proxy", "dns", "--takeover-from=kube-proxy,coredns"]);
    let (comments, _) = text.split_once("---\n").expect("documents");
    assert!(comments.lines().all(|line| line.starts_with('#')), "{comments}");
    let at = |part: &str| {
        comments
            .find(part)
            .unwrap_or_else(|| panic!("no {part:?}: {comments}"))
    };
    assert!(at("Before you apply") < at("patch daemonset kube-proxy"));
    assert!(at("After you have applied") < at("scale deployment/coredns --replicas=0"));
    assert!(at("To go back") < at("scale deployment/coredns --replicas=2"));
    assert!(at("To go back") < at("In iptables and ipvs mode, delete portolan-proxy first"));
    assert!(
        output(&["all", SERVER]).starts_with("---\n"),
        "steps without a takeover"
    );
}

#[test]
fn take_over_needs_its_part() {
    let message = error(&["dns", "--takeover-from=kube-proxy"]);
    assert_eq!(message, "--takeover-from=kube-proxy needs the part proxy");
    let message = error(&["all", SERVER, "--takeover-from=kube-controller-manager"]);
    assert_eq!(
        message,
        "--takeover-from=kube-controller-manager needs the part controllers"
    );
}

#[test]
fn take_over_from_kube_proxy_excludes_other_settings() {
    for flag in [
        "--proxy-mode=iptables",
        "--cluster-cidr=10.244.0.0/16",
        "--namespace=portolan",
    ] {
        let message = error(&["proxy", "--takeover-from=kube-proxy", flag]);
        assert!(message.contains("ConfigMap of kube-proxy"), "{flag}: {message}");
    }
}

#[test]
fn pool_and_addresses_need_each_other() {
    assert!(error(&["pool"]).contains("--addresses"));
    assert!(error(&["dns", "--addresses=192.0.2.0/28"]).contains("pool"));
    assert!(error(&["dns", "--interfaces=eth0"]).contains("pool"));
    assert!(error(&["pool", "--addresses=192.0.2"]).contains("192.0.2"));
}

#[test]
fn cluster_dns_has_one_address_of_a_family() {
    assert!(error(&["dns", "--cluster-dns=10.96.0.10,10.96.0.11"]).contains("family"));
}

#[test]
fn server_is_an_address_that_nodes_reach() {
    for server in [
        "https://127.0.0.1:6443",
        "https://[::1]:6443",
        "https://localhost",
        "http://192.0.2.1",
        "192.0.2.1:6443",
        "https://192.0.2.1/x",
    ] {
        assert!(
            settings(&["proxy", &format!("--server={server}")]).is_err(),
            "{server}"
        );
    }
    for (server, host, port) in [
        ("https://[2001:db8::1]:6443", "2001:db8::1", "6443"),
        ("https://api.example.org", "api.example.org", "443"),
    ] {
        let objects = objects(&["proxy", &format!("--server={server}")]);
        let data = &find(&objects, "ConfigMap", "portolan-server")["data"];
        assert_eq!(data["KUBERNETES_SERVICE_HOST"], host);
        assert_eq!(data["KUBERNETES_SERVICE_PORT"], port);
    }
}

#[test]
fn server_defaults_to_the_kubeconfig() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let kubeconfig = |server: &str| {
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u}}]\nclusters: [{{name: k, cluster: {{server: \"{server}\"}}}}]\n"
        );
        std::fs::write(file.path(), text).expect("written");
        format!("--kubeconfig={}", file.path().display())
    };
    let objects = objects(&["proxy", &kubeconfig("https://192.0.2.7:6443")]);
    assert_eq!(
        find(&objects, "ConfigMap", "portolan-server")["data"]["KUBERNETES_SERVICE_HOST"],
        "192.0.2.7"
    );
    let message = error(&["proxy", &kubeconfig("https://127.0.0.1:6443")]);
    assert!(message.ends_with("set --server"), "{message}");
}

#[test]
fn iptables_variant_of_the_image_is_for_the_proxy() {
    let image = |arguments: &[&str]| {
        let settings = settings(arguments).expect("valid flags");
        (settings.image, settings.proxy_image)
    };
    let both = |image: &str, proxy: &str| (image.to_owned(), proxy.to_owned());
    assert_eq!(
        image(&["proxy", SERVER, "--image=r:5/p:1"]),
        both("r:5/p:1", "r:5/p:1")
    );
    let iptables = ["proxy", SERVER, "--proxy-mode=iptables"];
    assert_eq!(
        image(&[&iptables[..], &["--image=r:5/p:1"]].concat()),
        both("r:5/p:1", "r:5/p:1-iptables")
    );
    assert_eq!(image(&[&iptables[..], &["--proxy-image=x"]].concat()).1, "x");
    for without_tag in ["--image=r:5/p", "--image=p:1@sha256:0"] {
        let message = error(&[&iptables[..], &[without_tag]].concat());
        assert!(message.contains("--proxy-image"), "{message}");
    }
}
