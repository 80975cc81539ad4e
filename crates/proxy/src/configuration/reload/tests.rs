use super::super::v1alpha1::KubeProxyConfiguration;
use super::super::validation::validate;
use super::*;
use crate::config::NodePortSelection;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
const HOST: &str = "node-a";

struct Watched {
    directory: tempfile::TempDir,
    configs: watch::Receiver<Config>,
    task: tokio::task::JoinHandle<()>,
}

impl Watched {
    fn path(&self) -> PathBuf {
        self.directory.path().join("config.conf")
    }

    fn write(&self, fields: &str) {
        std::fs::write(self.path(), format!("{HEADER}{fields}")).expect("a file");
    }

    async fn next(&mut self) -> Config {
        self.configs.changed().await.expect("a sender");
        self.configs.borrow_and_update().clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn watched(fields: &str) -> Watched {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.conf");
    std::fs::write(&path, format!("{HEADER}{fields}")).expect("a file");
    let (configuration, _) = load(&path).expect("a valid file");
    let (_, config) = validate(&configuration, HOST).expect("a valid configuration");
    let (sender, configs) = watch::channel(config);
    let task = tokio::spawn(watch_file(path, None, HOST.to_owned(), sender));
    Watched {
        directory,
        configs,
        task,
    }
}

/// KPF-01. The clock of the test advances while it waits.
#[tokio::test(start_paused = true)]
async fn changed_file_is_sent_and_invalid_one_is_not() {
    let mut watched = watched("clusterCIDR: 10.244.0.0/16\n");
    watched.write("nftables:\n  masqueradeAll: true\n");
    assert!(watched.next().await.masquerade_all);
    watched.write("nftables:\n  masqueradeBit: 99\n");
    tokio::time::sleep(READ_PERIOD * 3).await;
    assert!(!watched.configs.has_changed().expect("a sender"));
    // A comment changes no setting.
    watched.write("# comment\nnftables:\n  masqueradeAll: true\n");
    tokio::time::sleep(READ_PERIOD * 3).await;
    assert!(!watched.configs.has_changed().expect("a sender"));
    watched.write("nodePortAddresses: [\"192.0.2.0/24\"]\n");
    let config = watched.next().await;
    assert!(!config.masquerade_all);
    assert!(matches!(config.node_port_addresses, NodePortSelection::Within(_)));
}

#[tokio::test(start_paused = true)]
async fn defaults_of_another_mode_wait_for_restart() {
    let mut watched = watched("mode: nftables\n");
    watched.write("mode: iptables\niptables:\n  masqueradeAll: true\n");
    let config = watched.next().await;
    assert_eq!(config.proxy_mode, "iptables", "the change is noticed");
    assert_eq!(config.node_port_addresses, NodePortSelection::Primary);
    assert!(!config.masquerade_all, "the section of the running mode applies");
    let running = KubeProxyConfiguration {
        mode: "nftables".to_owned(),
        ..KubeProxyConfiguration::default()
    };
    let (_, running) = validate(&running, HOST).expect("a valid configuration");
    assert_eq!(running.start_only_differences(&config), ["mode"]);
}
