//! Parts of the cluster: upstream's and Portolan's, as manifests, and the steps of their installation and removal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cluster::{DNS, RealCluster, fill};
use crate::Failure;

/// Image of all Pods: agnhost, whose root has the programs that it needs; others are mounted from the host.
const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
const HOST_MOUNTS: &str = "{name: usr, mountPath: /usr, readOnly: true}, {name: lib, mountPath: /lib, readOnly: true}, \
     {name: lib64, mountPath: /lib64, readOnly: true}, {name: alternatives, mountPath: /etc/alternatives, readOnly: true}, \
     {name: lock, mountPath: /run/xtables.lock}, {name: programs, mountPath: /programs, readOnly: true}";
/// Ranges of Pods in clusters of the script.
const POD_CIDRS: &str = "10.244.0.0/16,fd00:244::/32";
/// Controllers of endpoints.
const ENDPOINT_CONTROLLERS: [&str; 3] = [
    "endpointslice-controller",
    "endpoints-controller",
    "endpointslice-mirroring-controller",
];
/// Time in which Pods disappear.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Time in which a proxy applies its rules.
const SYNC_TIMEOUT: Duration = Duration::from_secs(180);
/// Time in which the controllers and proxies remove DNS servers that the Service no longer selects.
const DNS_MOVE_PERIOD: Duration = Duration::from_secs(10);
/// Pause between two checks of Pods and proxies.
const POLL: Duration = Duration::from_millis(300);

/// Build of Portolan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The measured one.
    Current,
    /// The one of `--old-binary`.
    Old,
}

impl Version {
    fn directory(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Old => "old",
        }
    }
}

/// Mode of both proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// nftables.
    Nftables,
    /// iptables.
    Iptables,
}

impl Mode {
    /// Name in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// DNS servers that the Service `kube-dns` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DnsServers {
    /// All with the label `k8s-app: kube-dns`.
    All,
    /// Portolan's.
    Portolan,
}

/// Part of Portolan that is a DaemonSet or a Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Proxy.
    Proxy,
    /// DNS.
    Dns,
    /// Endpoint controllers.
    Controllers,
}

impl Part {
    /// All parts.
    pub(super) const ALL: [Self; 3] = [Self::Proxy, Self::Dns, Self::Controllers];

    /// Name of the part.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Proxy => "portolan proxy",
            Self::Dns => "portolan dns",
            Self::Controllers => "portolan controllers",
        }
    }

    /// Object for kubectl.
    fn object(self) -> &'static str {
        match self {
            Self::Proxy => "daemonset/portolan-proxy",
            Self::Dns => "deployment/portolan-dns",
            Self::Controllers => "deployment/portolan-controllers",
        }
    }

    fn selector(self) -> &'static str {
        match self {
            Self::Proxy => "k8s-app=portolan-proxy",
            Self::Dns => "app=portolan-dns",
            Self::Controllers => "app=portolan-controllers",
        }
    }

    fn manifest(self) -> &'static str {
        match self {
            Self::Proxy => include_str!("manifests/portolan-proxy.yaml"),
            Self::Dns => include_str!("manifests/portolan-dns.yaml"),
            Self::Controllers => include_str!("manifests/portolan-controllers.yaml"),
        }
    }
}

/// Installs and removes parts.
pub(super) struct Parts<'a> {
    cluster: &'a RealCluster,
}

impl<'a> Parts<'a> {
    /// Copies the programs to the directory of the cluster, where its nodes find them.
    pub(super) fn new(
        cluster: &'a RealCluster,
        portolan: &Path,
        old_portolan: Option<&Path>,
    ) -> Result<Self, Failure> {
        let programs = cluster.directory.join("programs");
        let versions = [(Version::Current, Some(portolan)), (Version::Old, old_portolan)];
        for (version, program) in versions {
            let directory = programs.join(version.directory());
            fs::create_dir_all(&directory)?;
            if let Some(program) = program {
                replace_file(program, &directory.join("portolan"))?;
            }
        }
        replace_file(
            &cluster.directory.join("bin/kube-proxy"),
            &programs.join("kube-proxy"),
        )?;
        Ok(Self { cluster })
    }

    fn apply(&self, manifest: &str, values: &[(&'static str, &str)]) -> Result<(), Failure> {
        let volume = |name: &str, path: &str| format!("{{name: {name}, hostPath: {{path: {path}}}}}");
        let programs = self.cluster.directory.join("programs").display().to_string();
        let volumes = [
            volume("usr", "/usr"),
            volume("lib", "/lib"),
            volume("lib64", "/lib64"),
            volume("alternatives", "/etc/alternatives"),
            volume("programs", &programs),
            "{name: lock, hostPath: {path: /run/xtables.lock, type: FileOrCreate}}".to_owned(),
        ];
        let mut all = BTreeMap::from([
            ("IMAGE", IMAGE.to_owned()),
            ("HOST_MOUNTS", HOST_MOUNTS.to_owned()),
            ("HOST_VOLUMES", volumes.join(", ")),
            ("POD_CIDRS", POD_CIDRS.to_owned()),
            ("SERVER", self.cluster.server()?),
            ("DNS", DNS.to_string()),
        ]);
        all.extend(values.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self.cluster.apply(&fill(manifest, &all))
    }

    /// Installs the backends and the clients' Pods, and waits for them.
    pub(super) fn install_workload(&self, backends: usize, pre_stop_seconds: u64) -> Result<(), Failure> {
        self.apply(
            include_str!("manifests/workload.yaml"),
            &[
                ("BACKENDS", &backends.to_string()),
                ("PRE_STOP_SECONDS", &pre_stop_seconds.to_string()),
            ],
        )?;
        self.wait_for_rollout("takeover", "deployment/backends")?;
        self.wait_for_rollout("takeover", "daemonset/clients")
    }

    /// Installs kube-proxy in a mode, or restarts it in this mode.
    pub(super) fn install_kube_proxy(&self, mode: Mode) -> Result<(), Failure> {
        self.apply(
            include_str!("manifests/kube-proxy.yaml"),
            &[("MODE", mode.name())],
        )?;
        self.system(&["rollout", "restart", "daemonset/kube-proxy"])?;
        self.wait_for_rollout("kube-system", "daemonset/kube-proxy")?;
        self.wait_for_syncs()
    }

    /// Removes kube-proxy from all nodes, and waits until its Pods no longer exist. Its rules stay.
    pub(super) fn stop_kube_proxy(&self) -> Result<(), Failure> {
        self.patch_kube_proxy(r#""node""#)?;
        self.wait_for_absence("k8s-app=kube-proxy")
    }

    /// Lets kube-proxy run on all nodes again.
    pub(super) fn resume_kube_proxy(&self) -> Result<(), Failure> {
        self.patch_kube_proxy("null")?;
        self.wait_for_rollout("kube-system", "daemonset/kube-proxy")
    }

    fn patch_kube_proxy(&self, value: &str) -> Result<(), Failure> {
        let patch =
            format!(r#"{{"spec":{{"template":{{"spec":{{"nodeSelector":{{"no-such":{value}}}}}}}}}}}"#);
        self.system(&[
            "patch",
            "daemonset",
            "kube-proxy",
            "--type",
            "merge",
            "-p",
            &patch,
        ])
    }

    /// Waits until the proxy of each node has applied its rules, by its metrics.
    pub(super) fn wait_for_syncs(&self) -> Result<(), Failure> {
        const TIME: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
        let deadline = Instant::now() + SYNC_TIMEOUT;
        for node in 1..=self.cluster.nodes {
            let is_synced = || {
                let metrics = ["curl", "-s", "http://127.0.0.1:10249/metrics"];
                // The port is closed while one proxy replaces the other.
                self.cluster.on_node(node, &metrics).is_ok_and(|metrics| {
                    let mut times = metrics.lines().filter(|line| line.starts_with(TIME)).peekable();
                    times.peek().is_some() && times.all(|line| !line.ends_with(" 0"))
                })
            };
            while !is_synced() {
                if Instant::now() > deadline {
                    return Err(format!("the proxy of node {node} has not applied its rules").into());
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Removes Portolan's table on each node.
    pub(super) fn remove_tables(&self) -> Result<(), Failure> {
        for node in 1..=self.cluster.nodes {
            self.cluster
                .on_node(node, &["nft", "delete", "table", "inet", "portolan"])?;
        }
        Ok(())
    }

    /// Installs CoreDNS behind the Service `kube-dns`, in the place of the slice of the script.
    pub(super) fn install_coredns(&self) -> Result<(), Failure> {
        self.apply(include_str!("manifests/coredns.yaml"), &[])?;
        self.wait_for_rollout("kube-system", "deployment/coredns")?;
        self.system(&["delete", "endpointslice", "kube-dns-node1", "--ignore-not-found"])
    }

    /// Scales CoreDNS and waits.
    pub(super) fn scale_coredns(&self, replicas: usize) -> Result<(), Failure> {
        let replicas_flag = format!("--replicas={replicas}");
        self.system(&["scale", "deployment/coredns", &replicas_flag])?;
        if replicas == 0 {
            return self.wait_for_absence("app=coredns");
        }
        self.wait_for_rollout("kube-system", "deployment/coredns")
    }

    /// Changes the selector of the Service `kube-dns`. After a restriction, waits until the proxies have moved all clients.
    pub(super) fn select_dns_servers(&self, servers: DnsServers) -> Result<(), Failure> {
        let name = match servers {
            DnsServers::All => "null",
            DnsServers::Portolan => r#""portolan-dns""#,
        };
        let patch = format!(r#"{{"spec":{{"selector":{{"app.kubernetes.io/name":{name}}}}}}}"#);
        self.system(&["patch", "service", "kube-dns", "--type=merge", "-p", &patch])?;
        if servers == DnsServers::Portolan {
            std::thread::sleep(DNS_MOVE_PERIOD);
        }
        Ok(())
    }

    /// Removes the Pods of `portolan dns` from the Service `kube-dns`, and waits until the proxies have moved all clients.
    pub(super) fn remove_from_dns_service(&self) -> Result<(), Failure> {
        self.system(&["label", "pods", "--selector", Part::Dns.selector(), "k8s-app-"])?;
        std::thread::sleep(DNS_MOVE_PERIOD);
        Ok(())
    }

    /// Installs or updates a part of Portolan, and waits for it.
    pub(super) fn install(&self, part: Part, version: Version) -> Result<(), Failure> {
        self.apply(part.manifest(), &[("VERSION", version.directory())])?;
        self.wait_for_rollout("kube-system", part.object())
    }

    /// Restarts a part of Portolan, one Pod after the other, and waits.
    pub(super) fn restart(&self, part: Part) -> Result<(), Failure> {
        self.system(&["rollout", "restart", part.object()])?;
        self.wait_for_rollout("kube-system", part.object())
    }

    /// Deletes a part of Portolan, and waits until its Pods no longer exist.
    pub(super) fn remove(&self, part: Part) -> Result<(), Failure> {
        self.system(&["delete", part.object()])?;
        self.wait_for_absence(part.selector())
    }

    /// Waits until an instance of Portolan's controllers leads.
    pub(super) fn wait_for_leader(&self) -> Result<(), Failure> {
        let holder = [
            "--namespace=kube-system",
            "get",
            "lease",
            "portolan-controllers",
            "--output=jsonpath={.spec.holderIdentity}",
        ];
        let deadline = Instant::now() + SYNC_TIMEOUT;
        // The Lease does not exist before the first election.
        let has_leader = || {
            self.cluster
                .kubectl(&holder)
                .is_ok_and(|holder| !holder.is_empty())
        };
        while !has_leader() {
            if Instant::now() > deadline {
                return Err("no instance of portolan controllers leads".into());
            }
            std::thread::sleep(POLL);
        }
        self.wait_for_rollout("kube-system", Part::Controllers.object())
    }

    /// Restarts kube-controller-manager with or without its controllers of endpoints.
    pub(super) fn set_upstream_controllers(&self, has_endpoint_controllers: bool) -> Result<(), Failure> {
        let disabled: String = ENDPOINT_CONTROLLERS
            .iter()
            .map(|name| format!(",-{name}"))
            .collect();
        let disabled = if has_endpoint_controllers { "" } else { &disabled };
        self.cluster.restart_controller_manager(&format!("*{disabled}"))
    }

    fn system(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.cluster
            .kubectl(&[&["--namespace=kube-system"], arguments].concat())
            .map(|_| ())
    }

    fn wait_for_rollout(&self, namespace: &str, object: &str) -> Result<(), Failure> {
        let namespace = format!("--namespace={namespace}");
        self.cluster
            .kubectl(&[&namespace, "rollout", "status", "--timeout=180s", object])
            .map(|_| ())
    }

    fn wait_for_absence(&self, selector: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        let arguments = [
            "--namespace=kube-system",
            "get",
            "pods",
            "--selector",
            selector,
            "--output=name",
        ];
        while !self.cluster.kubectl(&arguments)?.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("Pods {selector} are still there").into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Copies a program, also while the previous copy runs.
fn replace_file(from: &Path, to: &Path) -> Result<(), Failure> {
    let new = to.with_extension("new");
    fs::copy(from, &new).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(fs::rename(&new, to)?)
}
