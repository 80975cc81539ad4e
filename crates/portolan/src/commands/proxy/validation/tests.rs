use super::*;

fn checked(change: impl FnOnce(&mut Configuration)) -> Result<proxy::Config, String> {
    let mut configuration = Configuration::default();
    change(&mut configuration);
    check(&configuration)
        .map(|(_, config)| config)
        .map_err(|error| error.0)
}

#[test]
fn the_defaults_are_fine() {
    let config = checked(|_| {}).expect("a configuration");
    assert_eq!(config.node_port_addresses, NodePortSelection::Primary);
    assert_eq!(config.pods, PodSelection::default());
    assert_eq!(config.conntrack.max_per_core, Some(32_768));
    assert_eq!(config.conntrack.udp_timeout, None);
    assert!(config.takes_over && config.localhost_node_ports);
}

#[test]
fn masquerading_everything_is_a_matter_of_the_modes_own_section() {
    let is_asked = |mode: &str, iptables, nftables| {
        let config = checked(|configuration| {
            mode.clone_into(&mut configuration.mode);
            configuration.iptables.masquerade_all = iptables;
            configuration.nftables.masquerade_all = nftables;
        });
        config.expect("a configuration").masquerade_all
    };
    assert!(!is_asked("nftables", true, false) && is_asked("nftables", false, true));
    assert!(is_asked("iptables", true, false) && !is_asked("iptables", false, true));
    // kubeadm's file names no mode, and upstream would read the section of iptables.
    assert!(is_asked("", true, false) && is_asked("ipvs", true, false));
}

#[test]
fn every_mode_of_detecting_pods_is_understood() {
    let detect = |mode: &str| {
        checked(|configuration| {
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
fn everything_that_is_wrong_is_named() {
    let error = checked(|configuration| {
        configuration.bind_address = "localhost".to_owned();
        configuration.healthz_bind_address = "0.0.0.0:0".to_owned();
        configuration.iptables.masquerade_bit = 32;
        configuration.nftables.min_sync_period = GoDuration::seconds(31);
        configuration.oom_score_adj = 1001;
        configuration.conntrack.min = -1;
        configuration.detect_local_mode = "BridgeInterface".to_owned();
        configuration.node_port_addresses = vec!["primary".to_owned(), "10.0.0.0/8".to_owned()];
        configuration.mode = "magic".to_owned();
    })
    .expect_err("wrong in many ways");
    for part in [
        "bindAddress: \"localhost\"",
        "healthzBindAddress: \"0.0.0.0:0\"",
        "iptables.masqueradeBit: 32",
        "nftables.minSyncPeriod: 31s is longer than syncPeriod, 30s",
        "oomScoreAdj: 1001",
        "conntrack.min: -1",
        "detectLocal.bridgeInterface: \"\"",
        "nodePortAddresses: can't use both 'primary' and CIDRs",
        "mode: \"magic\"",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn one_range_a_family_is_taken() {
    let of = |cidrs: &str| checked(|configuration| cidrs.clone_into(&mut configuration.cluster_cidr));
    assert!(of("10.0.0.0/8,10.1.0.0/16").is_err());
    assert!(of("10.0.0.0/8,fd00::/8").is_ok());
    assert!(of("10.0.0.1/8").is_err());
}

#[test]
fn what_is_most_likely_not_meant_is_said() {
    let doubts = |mode, change: fn(&mut Configuration)| {
        let mut configuration = Configuration {
            cluster_cidr: "10.244.0.0/16,fd00:244::/32".to_owned(),
            ..Configuration::default()
        };
        change(&mut configuration);
        let words = doubts(&configuration, mode).into_iter();
        words
            .map(|doubt| doubt.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(doubts(Mode::Nftables, |_| {}), Vec::<String>::new());
    assert_eq!(doubts(Mode::Iptables, |_| {}), ["nodePortAddresses"]);
    let one_family = |configuration: &mut Configuration| {
        configuration.node_port_addresses = vec!["10.0.0.0/8".to_owned()];
    };
    assert_eq!(doubts(Mode::Nftables, one_family), ["nodePortAddresses"]);
    let other_family = |configuration: &mut Configuration| {
        configuration.bind_address = "fd00::1".to_owned();
        configuration.cluster_cidr = "10.244.0.0/16".to_owned();
    };
    assert_eq!(doubts(Mode::Nftables, other_family), ["clusterCIDR"]);
}
