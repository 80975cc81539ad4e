use clap::Parser;

use std::time::Duration;

use proxy::NodePortSelection;

use super::*;
use crate::cli::{self, Cli, Command};

fn flags(arguments: &[&str]) -> Flags {
    let all = ["portolan", "proxy"].iter().chain(arguments);
    match Cli::try_parse_from(all).expect("valid flags").command {
        Command::Proxy(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

#[test]
fn parses_kube_proxy_command_lines() {
    let flags = flags(&[
        "--hostname-override=Node-A",
        "--masquerade-all=true",
        "--iptables-localhost-nodeports=false",
        "--cluster-cidr=10.244.0.0/16",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=1h",
        "--oom-score-adj=-500",
        "--ipvs-strict-arp",
        "--config-sync-period=15m0s",
        "-v=2",
        "--metrics-bind-address=",
        "--healthz-port=0",
    ]);
    let configuration = flags.configuration().expect("a valid configuration");
    let (mode, config) = mode_and_config(&configuration).expect("a valid configuration");
    assert_eq!(mode, Mode::Nftables);
    assert_eq!(config.node_name, "node-a");
    assert!(config.masquerade_all && !config.localhost_node_ports);
    assert_eq!(config.oom_score_adj, Some(-500));
    assert_eq!(config.conntrack.max_per_core, Some(0));
    assert_eq!(
        config.conntrack.tcp_timeout_established,
        Some(Duration::from_secs(3_600))
    );
    assert_eq!(config.metrics_bind_address, None);
    assert_eq!(config.healthz_bind_address, None);
    assert_eq!(flags.proxy.without_effect(), ["--config-sync-period", "-v"]);
}

fn checked_flags(arguments: &[&str]) -> (Mode, proxy::Config) {
    let configuration = flags(arguments).configuration().expect("a valid configuration");
    mode_and_config(&configuration).expect("a valid configuration")
}

#[test]
fn bind_addresses_without_port_get_default_port() {
    let address = |text: &str| Some(text.parse().expect("an address"));
    let (_, config) = checked_flags(&["--metrics-bind-address=0.0.0.0", "--healthz-bind-address=::1"]);
    assert_eq!(config.metrics_bind_address, address("0.0.0.0:10249"));
    assert_eq!(config.healthz_bind_address, address("[::1]:10256"));
    let (_, config) = checked_flags(&["--metrics-bind-address=10.0.0.1", "--metrics-port=9100"]);
    assert_eq!(config.metrics_bind_address, address("10.0.0.1:9100"));
    let (_, config) = checked_flags(&["--bind-address=::"]);
    assert_eq!(config.metrics_bind_address, address("[::1]:10249"));
    assert_eq!(
        config.healthz_bind_address,
        address("0.0.0.0:10256"),
        "both families"
    );
    assert!(Cli::try_parse_from(["portolan", "proxy", "--metrics-bind-address=here"]).is_err());
}

#[test]
fn flag_selects_mode() {
    assert_eq!(checked_flags(&["--proxy-mode=ipvs"]).0, Mode::Ipvs);
    assert_eq!(checked_flags(&["--proxy-mode=userspace"]).0, Mode::Userspace);
    assert!(Cli::try_parse_from(["portolan", "proxy", "--proxy-mode=magic"]).is_err());
}

#[test]
fn sync_period_applies_to_every_mode() {
    for mode in ["iptables", "nftables"] {
        let (_, config) = checked_flags(&[&format!("--proxy-mode={mode}"), "--iptables-sync-period=10s"]);
        assert_eq!(config.sync_period, Duration::from_secs(10));
    }
}

#[test]
fn master_flag_overrides_kubeconfig_server() {
    let connection = |arguments: &[&str]| {
        let flags = flags(arguments);
        flags.connection(&flags.configuration().expect("a valid configuration"))
    };
    let alone = connection(&["--master=http://127.0.0.1:8080"]).expect("a connection");
    assert_eq!(alone.server, "http://127.0.0.1:8080");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                clusters: [{name: k, cluster: {server: 'http://10.0.0.1:80'}}]\n\
                users: [{name: u, user: {token: secret}}]\n\
                contexts: [{name: c, context: {cluster: k, user: u}}]\n";
    std::fs::write(&path, text).expect("a file");
    let kubeconfig = format!("--kubeconfig={}", path.display());
    let both = connection(&["--master=http://127.0.0.1:8080", &kubeconfig]).expect("a connection");
    assert_eq!(both.server, "http://127.0.0.1:8080");
    assert_eq!(both.token.as_deref(), Some("secret"));
    let given = connection(&[&kubeconfig]).expect("a connection");
    assert_eq!(given.server, "http://10.0.0.1:80");
}

#[test]
fn feature_gates_enable_debug_pages() {
    let command_line = [
        "portolan",
        "proxy",
        "--feature-gates=ComponentFlagz=true,ComponentStatusz=true",
    ];
    let given = flags(&command_line[2..]);
    assert_eq!(given.node.feature_gates.without_effect(), Vec::<&str>::new());
    let configuration = given.configuration().expect("a valid configuration");
    let pages = debug_pages::pages(
        &configuration,
        cli::command(),
        command_line.iter().map(Into::into),
    );
    assert!(pages.statusz);
    let flagz = pages.flagz.expect("a page");
    let value = |name: &str| {
        let found = flagz.iter().find(|(flag, _)| flag == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(
        value("feature-gates"),
        Some("ComponentFlagz=true,ComponentStatusz=true")
    );
    assert_eq!(value("iptables-masquerade-bit"), Some("14"));
    assert_eq!(value("cluster-cidr"), Some(""));

    let others = flags(&["--feature-gates=Other=true,ComponentStatusz=False"]);
    assert_eq!(others.node.feature_gates.without_effect(), ["Other"]);
    let configuration = others.configuration().expect("a valid configuration");
    assert_eq!(
        debug_pages::pages(&configuration, cli::command(), std::iter::empty()),
        proxy::Pages::default()
    );
}

#[test]
fn disabled_gate_ignores_external_ips() {
    let allows = |arguments: &[&str]| {
        let configuration = flags(arguments).configuration().expect("a valid configuration");
        let (_, config) = mode_and_config(&configuration).expect("a node's configuration");
        config.allows_external_ips
    };
    assert!(allows(&[]));
    assert!(allows(&["--feature-gates=AllowServiceExternalIPs=true"]));
    assert!(!allows(&["--feature-gates=AllowServiceExternalIPs=false"]));
    let disabled = flags(&["--feature-gates=AllowServiceExternalIPs=false,ComponentFlagz=true"]);
    let gates = &disabled.node.feature_gates;
    assert_eq!(gates.without_effect(), [""; 0]);
    assert_eq!(gates.without_effect_on_hosts(), ["ComponentFlagz"]);
    let (_, config) = disabled.node.config().expect("a configuration");
    assert!(!config.allows_external_ips);
}

/// The node of `up` and `join` runs the selected mode, which all its reports name.
#[test]
fn mode_of_a_node_selects_data_plane_and_defaults() {
    for (name, mode, node_ports) in [
        ("nftables", Mode::Nftables, NodePortSelection::Primary),
        ("iptables", Mode::Iptables, NodePortSelection::All),
        ("userspace", Mode::Userspace, NodePortSelection::Primary),
        ("ipvs", Mode::Ipvs, NodePortSelection::Within(everywhere())),
    ] {
        let node = flags(&["--proxy-mode", name]).node;
        let (selected, config) = node.config().expect("a configuration");
        assert_eq!((selected, node.mode()), (mode, mode));
        assert_eq!(config.proxy_mode, name);
        assert_eq!(config.configuration["mode"], name);
        assert_eq!(config.node_port_addresses, node_ports);
    }
}

fn everywhere() -> Vec<ipnet::IpNet> {
    ["0.0.0.0/0", "::/0"]
        .map(|net| net.parse().expect("a CIDR"))
        .to_vec()
}

/// KPC-04, KPF-21 to KPF-25, IPV-02: flags of IPVS mode have kube-proxy's names.
#[test]
fn ipvs_flags_select_scheduler_periods_and_options() {
    let arguments = [
        "--proxy-mode=ipvs",
        "--ipvs-scheduler=wlc",
        "--ipvs-sync-period=10s",
        "--ipvs-min-sync-period=2s",
        "--ipvs-exclude-cidrs=192.0.2.0/24,2001:db8::/32",
        "--ipvs-strict-arp",
        "--ipvs-tcp-timeout=15m",
        "--ipvs-tcpfin-timeout=500ms",
    ];
    let (_, config) = checked_flags(&arguments);
    assert_eq!(config.default_scheduler.as_str(), "wlc");
    assert_eq!(config.repair_period, Duration::from_secs(10));
    assert_eq!(config.min_sync_period, Duration::from_secs(2));
    let options = flags(&arguments).node.ipvs();
    assert_eq!(options.excluded.len(), 2);
    assert!(options.strict_arp);
    let timeouts = options.timeouts;
    assert_eq!(
        (
            timeouts.tcp_seconds,
            timeouts.tcp_fin_seconds,
            timeouts.udp_seconds
        ),
        (900, 1, 0)
    );
    assert_eq!(
        checked_flags(&["--proxy-mode=ipvs"]).1.default_scheduler.as_str(),
        "rr"
    );
    for unknown in ["random", "fastest"] {
        let scheduler = format!("--ipvs-scheduler={unknown}");
        let configuration = flags(&[scheduler.as_str()]).configuration().expect("flags");
        assert!(mode_and_config(&configuration).is_err());
    }
}

/// KPF-04: no API server is needed. The flags keep all values of this host.
#[test]
fn init_only_exits_after_the_settings_of_the_host() {
    let score = std::fs::read_to_string("/proc/self/oom_score_adj").expect("the score of this process");
    let oom_score_adj = format!("--oom-score-adj={}", score.trim());
    let init_only = flags(&[
        "--init-only",
        &oom_score_adj,
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]);
    run(init_only, cli::command()).expect("an exit without an error");
}

/// KPF-02.
#[test]
fn written_configuration_has_flags_and_defaults() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.conf");
    let written = flags(&[
        "--write-config-to",
        path.to_str().expect("a path"),
        "--masquerade-all",
        "--conntrack-min=7",
    ]);
    run(written, cli::command()).expect("a file");
    let (configuration, warnings) = load(&path).expect("a valid file");
    assert_eq!(warnings, Vec::<String>::new());
    assert!(configuration.nftables.masquerade_all);
    assert_eq!(configuration.conntrack.min, 7);
    assert_eq!(configuration.oom_score_adj, -999);
}

#[test]
fn config_file_replaces_flags_except_hostname_override() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.conf");
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.0.0.0/8\n";
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a path");
    let flags = flags(&[
        "--config",
        path,
        "--hostname-override",
        "n1",
        "--cluster-cidr",
        "10.1.0.0/16",
    ]);
    let configuration = flags.configuration().expect("a valid configuration");
    assert_eq!(configuration.hostname_override, "n1");
    assert_eq!(configuration.cluster_cidr, "10.0.0.0/8");
}
