use explain::observation::NodeProxy;
use proxy::configuration::KubeProxyConfiguration;

use super::*;

fn running(program: Program, mode: &str) -> RunningProxy {
    RunningProxy {
        observed: NodeProxy {
            mode: Some(mode.to_owned()),
            ..NodeProxy::default()
        },
        program,
        configuration: Some(KubeProxyConfiguration {
            cluster_cidr: "10.244.0.0/16".to_owned(),
            hostname_override: "Node-A".to_owned(),
            ..KubeProxyConfiguration::default()
        }),
    }
}

#[test]
fn settings_match_the_only_writer() {
    let nftables = running(Program::Portolan, "nftables");
    let kube_proxy = running(Program::KubeProxy, "nftables");
    let config = settings(&[kube_proxy.clone(), nftables.clone()], "host").expect("settings");
    assert_eq!(config.node_name, "node-a");
    for proxies in [
        vec![],
        vec![kube_proxy],
        vec![running(Program::Portolan, "iptables")],
        vec![nftables.clone(), nftables.clone()],
        vec![RunningProxy {
            configuration: None,
            ..nftables
        }],
    ] {
        assert!(settings(&proxies, "host").is_none(), "{proxies:?}");
    }
}

#[test]
fn differences_are_limited_to_the_own_table() {
    let table = |family: &str, name: &str| Table {
        family: family.to_owned(),
        name: name.to_owned(),
        ..Table::default()
    };
    let mut tables = [table("ip", "portolan"), table("inet", "portolan")];
    set(&mut tables, &Drift::default());
    let missing = tables.map(|table| table.missing);
    assert_eq!(missing, [None, Some(0)]);
}
