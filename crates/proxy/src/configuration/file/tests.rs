use super::*;

fn read(text: &str) -> Result<(KubeProxyConfiguration, Vec<String>), String> {
    let header = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    parse(Path::new("f.conf"), &(header + text)).map_err(|error| error.to_string())
}

/// The file in the ConfigMap that kubeadm writes.
const KUBEADM: &str = r#"
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
"#;

#[test]
fn kubeadm_file_causes_no_warning() {
    let (configuration, warnings) = read(KUBEADM).expect("a valid file");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(configuration.cluster_cidr, "10.244.0.0/16");
    assert_eq!(
        configuration.kubeconfig(),
        Some(PathBuf::from("/var/lib/kube-proxy/kubeconfig.conf"))
    );
    assert_eq!(configuration.healthz_bind_address, "0.0.0.0:10256");
    assert_eq!(
        configuration.conntrack,
        KubeProxyConfiguration::default().conntrack
    );
    assert_eq!(configuration.nftables.sync_period.to_string(), "30s");
    assert_eq!(configuration.oom_score_adj, -999);
    assert_eq!(configuration, kubeadm_configuration());
}

/// The configuration of kubeadm's file: defaults except for the fields that it sets.
fn kubeadm_configuration() -> KubeProxyConfiguration {
    let mut expected = KubeProxyConfiguration {
        cluster_cidr: "10.244.0.0/16".to_owned(),
        ..KubeProxyConfiguration::default()
    };
    expected.client_connection.kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf".to_owned();
    let (written, _) = read(KUBEADM).expect("a valid file");
    (expected.logging, expected.winkernel) = (written.logging, written.winkernel);
    expected
}

#[test]
fn warns_of_fields_without_effect() {
    let text = "enableProfiling: true\nipvs: {scheduler: rr}\nfeatureGates: {Some: true}\n\
                nftables: {masqueradeBit: 3, minSyncPeriod: 5s}\nlogging: {verbosity: 4}\nconfigSyncPeriod: 1h\n";
    let (_, warnings) = read(text).expect("a valid file");
    let fields: Vec<&str> = warnings
        .iter()
        .filter_map(|warning| warning.split_whitespace().nth(1))
        .collect();
    assert_eq!(
        fields,
        [
            "enableProfiling",
            "ipvs",
            "nftables.masqueradeBit",
            "nftables.minSyncPeriod",
            "configSyncPeriod",
            "logging",
            "featureGates"
        ]
    );
}

#[test]
fn rejects_unknown_fields_by_name() {
    let error = read("mood: nftables\niptables: {syncPeriods: 3s}\n").expect_err("an unknown field");
    assert_eq!(error, "f.conf has unknown fields: mood, iptables.syncPeriods");
    let error = read("conntrack: {min: many}\n").expect_err("text in the place of a number");
    assert!(error.starts_with("f.conf: "), "{error}");
    let other = parse(Path::new("f"), "kind: Pod\napiVersion: v1\n").expect_err("another kind");
    assert!(other.to_string().contains("kind Pod of v1"));
    assert!(parse(Path::new("f"), "{").is_err());
}

#[test]
fn ipv6_bind_address_selects_ipv6_defaults() {
    let (configuration, _) = read("bindAddress: '::'\nmetricsBindAddress: '::1'\n").expect("a valid file");
    assert_eq!(configuration.healthz_bind_address, "[::]:10256");
    assert_eq!(configuration.metrics_bind_address, "[::1]:10249");
}

#[test]
fn rendered_file_parses_back() {
    let defaults = KubeProxyConfiguration::default();
    let text = render(&defaults).expect("YAML");
    let (read, warnings) = parse(Path::new("f"), &text).expect("a valid file");
    assert_eq!((read, warnings), (defaults, Vec::new()));
}
