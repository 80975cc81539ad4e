use super::super::go_duration::GoDuration;
use super::*;

fn validated(change: impl FnOnce(&mut KubeProxyConfiguration)) -> Result<Config, String> {
    let mut configuration = KubeProxyConfiguration::default();
    change(&mut configuration);
    validate(&configuration, "Host")
        .map(|(_, config)| config)
        .map_err(|error| error.to_string())
}

/// KPC-03, KPC-05, KPC-06.
#[test]
fn defaults_match_kube_proxy() {
    let KubeProxyConfiguration {
        iptables,
        nftables,
        conntrack,
        ..
    } = KubeProxyConfiguration::default();
    assert_eq!((iptables.masquerade_bit, nftables.masquerade_bit), (14, 14));
    assert!(!iptables.masquerade_all && !nftables.masquerade_all && iptables.localhost_node_ports);
    for (period, min_period) in [
        (iptables.sync_period, iptables.min_sync_period),
        (nftables.sync_period, nftables.min_sync_period),
    ] {
        assert_eq!(
            (period, min_period),
            (GoDuration::from_secs(30), GoDuration::from_secs(1))
        );
    }
    assert_eq!((conntrack.max_per_core, conntrack.min), (32_768, 131_072));
    assert_eq!(
        conntrack.tcp_established_timeout,
        GoDuration::from_secs(24 * 3_600)
    );
    assert_eq!(conntrack.tcp_close_wait_timeout, GoDuration::from_secs(3_600));
    assert!(!conntrack.tcp_be_liberal);
}

#[test]
fn defaults_are_valid() {
    let config = validated(|_| {}).expect("a valid configuration");
    assert_eq!(config.node_port_addresses, NodePortSelection::Primary);
    assert_eq!(config.pods, PodSelection::default());
    assert_eq!(config.conntrack.max_per_core, Some(32_768));
    assert_eq!(config.conntrack.udp_timeout, None);
    assert_eq!(config.leftovers, Some(LeftoverScope::KubeProxyToo));
    assert!(config.localhost_node_ports);
}

#[test]
fn userspace_mode_selects_round_robin() {
    let scheduler = |mode: &str| {
        let config = validated(|configuration| mode.clone_into(&mut configuration.mode));
        config.expect("a valid configuration").default_scheduler
    };
    assert_eq!(scheduler("userspace"), Scheduler::RoundRobin);
    assert_eq!(scheduler("nftables"), Scheduler::Random);
    assert_eq!(scheduler("iptables"), Scheduler::Random);
}

#[test]
fn masquerade_all_comes_from_the_section_of_the_mode() {
    let masquerades_all = |mode: &str, iptables, nftables| {
        let config = validated(|configuration| {
            mode.clone_into(&mut configuration.mode);
            configuration.iptables.masquerade_all = iptables;
            configuration.nftables.masquerade_all = nftables;
        });
        config.expect("a valid configuration").masquerade_all
    };
    assert!(!masquerades_all("nftables", true, false) && masquerades_all("nftables", false, true));
    assert!(masquerades_all("iptables", true, false) && !masquerades_all("iptables", false, true));
    // kubeadm's file names no mode; upstream reads the iptables section then.
    assert!(masquerades_all("", true, false) && masquerades_all("ipvs", true, false));
}

#[test]
fn parses_every_pod_detection_mode() {
    let detect = |mode: &str| {
        validated(|configuration| {
            mode.clone_into(&mut configuration.detect_local_mode);
            configuration.cluster_cidr = "10.244.0.0/16,fd00:244::/32".to_owned();
            configuration.detect_local.bridge_interface = "cni0".to_owned();
            configuration.detect_local.interface_name_prefix = "veth".to_owned();
        })
        .map(|config| format!("{:?}", config.pods))
    };
    for (mode, pods) in [
        ("ClusterCIDR", "Given(Ranges([10.244.0.0/16, fd00:244::/32]))"),
        ("NodeCIDR", "NodeCidrs"),
        ("BridgeInterface", "Given(Interface(\"cni0\"))"),
        ("InterfaceNamePrefix", "Given(InterfacePrefix(\"veth\"))"),
    ] {
        assert_eq!(detect(mode).as_deref(), Ok(pods));
    }
    assert!(detect("Guess").is_err());
}

#[test]
fn error_lists_every_invalid_field() {
    let error = validated(|configuration| {
        configuration.bind_address = "localhost".to_owned();
        configuration.healthz_bind_address = "0.0.0.0:0".to_owned();
        configuration.iptables.masquerade_bit = 32;
        configuration.nftables.min_sync_period = GoDuration::from_secs(31);
        configuration.oom_score_adj = 1001;
        configuration.conntrack.min = -1;
        configuration.detect_local_mode = "BridgeInterface".to_owned();
        configuration.node_port_addresses = vec!["primary".to_owned(), "10.0.0.0/8".to_owned()];
        configuration.mode = "magic".to_owned();
    })
    .expect_err("an invalid configuration");
    for part in [
        "bindAddress: expected an IP address, found \"localhost\"",
        "healthzBindAddress: expected a port from 1 to 65535, found \"0.0.0.0:0\"",
        "iptables.masqueradeBit: expected a bit from 0 to 31, found 32",
        "nftables.minSyncPeriod: expected at most syncPeriod, 30s, found 31s",
        "oomScoreAdj: expected a score from -1000 to 1000, found 1001",
        "conntrack.min: expected 0 or more, found -1",
        "detectLocal.bridgeInterface: expected the name of a network interface",
        "nodePortAddresses: can't use both 'primary' and CIDRs",
        "mode: expected one of nftables, iptables, ipvs, ebpf, userspace, found \"magic\"",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn accepts_one_cluster_cidr_per_family() {
    let with = |cidrs: &str| validated(|configuration| cidrs.clone_into(&mut configuration.cluster_cidr));
    assert!(with("10.0.0.0/8,10.1.0.0/16").is_err());
    assert!(with("10.0.0.0/8,fd00::/8").is_ok());
    assert!(with("10.0.0.1/8").is_err());
}

#[test]
fn warns_of_probably_unintended_settings() {
    let fields = |mode, change: fn(&mut KubeProxyConfiguration)| {
        let mut configuration = KubeProxyConfiguration {
            cluster_cidr: "10.244.0.0/16,fd00:244::/32".to_owned(),
            ..KubeProxyConfiguration::default()
        };
        change(&mut configuration);
        let warnings = warnings(&configuration, mode).into_iter();
        warnings
            .map(|warning| warning.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let named = |configuration: &mut KubeProxyConfiguration| "nftables".clone_into(&mut configuration.mode);
    assert_eq!(fields(Mode::Nftables, named), Vec::<String>::new());
    // The default of kubeadm's file differs from kube-proxy's.
    assert_eq!(fields(Mode::Nftables, |_| {}), ["nodePortAddresses"]);
    for mode in [Mode::Iptables, Mode::Ipvs] {
        assert_eq!(fields(mode, |_| {}), ["nodePortAddresses"]);
    }
    let one_family = |configuration: &mut KubeProxyConfiguration| {
        configuration.node_port_addresses = vec!["10.0.0.0/8".to_owned()];
    };
    assert_eq!(fields(Mode::Nftables, one_family), ["nodePortAddresses"]);
    let nowhere = |configuration: &mut KubeProxyConfiguration| {
        configuration.node_port_addresses = vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()];
        configuration.iptables.localhost_node_ports = false;
    };
    assert_eq!(fields(Mode::Nftables, nowhere), ["nodePortAddresses"]);
    let other_family = |configuration: &mut KubeProxyConfiguration| {
        "nftables".clone_into(&mut configuration.mode);
        configuration.bind_address = "fd00::1".to_owned();
        configuration.cluster_cidr = "10.244.0.0/16".to_owned();
    };
    assert_eq!(fields(Mode::Nftables, other_family), ["clusterCIDR"]);
}
