use super::*;
use crate::configuration::v1alpha1::Iptables;

fn read(text: &str) -> Result<(KubeProxyConfiguration, Vec<String>), String> {
    let header = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    parse(Path::new("f.conf"), &(header + text)).map_err(|error| error.to_string())
}

/// Parses the configuration in a ConfigMap `kube-system/kube-proxy`.
fn read_config_map(text: &str) -> (KubeProxyConfiguration, Vec<String>) {
    let config_map: Value = serde_saphyr::from_str(text).expect("a ConfigMap");
    let file = config_map["data"]["config.conf"].as_str().expect("a file");
    parse(Path::new("config.conf"), file).expect("a valid file")
}

/// The ConfigMap of kubeadm 1.36.
const KUBEADM: &str = include_str!("tests/kubeadm-1.36.yaml");

#[test]
fn kubeadm_file_causes_no_warning() {
    let (configuration, warnings) = read_config_map(KUBEADM);
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
    let (written, _) = read_config_map(KUBEADM);
    (expected.logging, expected.winkernel) = (written.logging, written.winkernel);
    expected
}

/// Fields came (`localhostNodePorts` in 1.26, `nftables` and `logging` in 1.29) and went (`udpIdleTimeout` in 1.26).
#[test]
fn older_kubeadm_files_have_the_same_meaning() {
    let of_24 = read_config_map(include_str!("tests/kubeadm-1.24.yaml"));
    let of_28 = read_config_map(include_str!("tests/kubeadm-1.28.yaml"));
    let mut expected = kubeadm_configuration();
    expected.logging = Value::Null;
    assert_eq!(of_24.0, expected);
    assert_eq!(of_28.0, expected);
    assert_eq!(of_24.1, ["unknown fields ignored: udpIdleTimeout"]);
    assert_eq!(of_28.1, Vec::<String>::new());
}

#[test]
fn kubeadm_file_with_unknown_and_duplicate_fields_causes_one_warning() {
    let (configuration, warnings) = read_config_map(include_str!("tests/edited.yaml"));
    assert_eq!(
        warnings,
        [
            "unknown fields ignored: conntrack.max, iptables.snatNodeInternalIP, resourceContainer, udpIdleTimeout; \
          duplicate fields, the last value applies: mode again in line 43"
        ]
    );
    assert_eq!(configuration.mode, "iptables");
    assert!(configuration.iptables.masquerade_all);
    assert_eq!(configuration.conntrack.max_per_core, 0);
}

#[test]
fn last_of_duplicate_fields_replaces_the_others() {
    let text = "iptables: {masqueradeBit: 3}\niptables: {masqueradeAll: true, masqueradeAll: false}\nbindAddress: '::1'\n";
    let (configuration, warnings) = read(text).expect("a valid file");
    assert_eq!(
        configuration.iptables,
        Iptables::default(),
        "objects are not merged"
    );
    assert_eq!(configuration.bind_address, "::1");
    assert_eq!(warnings.len(), 1);
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
            "nftables.masqueradeBit",
            "nftables.minSyncPeriod",
            "configSyncPeriod",
            "logging",
            "featureGates"
        ]
    );
}

/// KPC-01: as upstream's `loadConfig`.
#[test]
fn ignores_unknown_fields_with_one_warning() {
    let (configuration, warnings) =
        read("mood: nftables\niptables: {syncPeriods: 3s}\n").expect("a valid file");
    assert_eq!(warnings, ["unknown fields ignored: mood, iptables.syncPeriods"]);
    assert_eq!(configuration, read("").expect("a valid file").0);
}

#[test]
fn rejects_malformed_files() {
    let error = read("mood: nftables\nconntrack: {min: many}\n").expect_err("text in the place of a number");
    assert!(error.starts_with("f.conf: "), "{error}");
    let other = parse(Path::new("f"), "kind: Pod\napiVersion: v1\n").expect_err("another kind");
    assert!(other.to_string().contains("kind Pod of v1"));
    assert!(parse(Path::new("f"), "{").is_err());
    assert!(read("mode: iptables\nmode: nftables\nbindAddress: ::\n").is_err());
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
