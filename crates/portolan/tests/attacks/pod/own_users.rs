//! Privileged Pods with `hostUsers: false`. Their capabilities must be limited to their user namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::{NODE, PODS, attacker};
use crate::test_cluster::TestCluster;

/// User IDs that the test needs in its user namespace.
const IDS_MIN: u64 = 1 << 21;

/// Returns a privileged Pod with a user namespace.
fn pod(name: &str, script: &str) -> Value {
    let mut main = attacker(script);
    main["name"] = json!("main");
    main["securityContext"] = json!({"privileged": true});
    main["volumeMounts"] = json!([{"name": "own", "mountPath": "/mnt"}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": NODE, "hostUsers": false, "restartPolicy": "Never", "containers": [main],
                 "volumes": [{"name": "own", "emptyDir": {}}]}})
}

fn create(cluster: &TestCluster, pod: &Value) {
    cluster.wait_for("the default ServiceAccount", || {
        cluster
            .try_request(NODE, Method::POST, PODS, Some(pod))
            .map(|_| true)
    });
}

/// Waits for the final phase of a Pod.
fn final_phase(cluster: &TestCluster, name: &str) -> String {
    let path = format!("{PODS}/{name}");
    cluster.wait_until(name, |cluster| {
        let phase = cluster.get(NODE, &path)["status"]["phase"].as_str()?.to_owned();
        ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
    })
}

/// Returns scripts that succeed only with rights on the node, by name. `data` is the data directory, and `of_root` a file
/// of the root user.
fn attacks(data: &Path, of_root: &Path) -> Vec<(&'static str, String)> {
    let (data, of_root) = (data.display(), of_root.display());
    let uncover = format!("umount -l {data}; umount -l {data}/agent");
    vec![
        (
            "file",
            format!("grep PRIVATE {of_root} || (chmod 666 {of_root}; grep PRIVATE {of_root})"),
        ),
        ("owner", format!("chown 0:0 {of_root}")),
        ("change", ": >>/etc/hostname".to_owned()),
        ("key", format!("{uncover}; grep PRIVATE {data}/pki/ca.key")),
        (
            "neighbour",
            format!("{uncover}; grep -r PRIVATE {data}/agent /proc/*/root/mnt"),
        ),
        (
            "pid-1",
            format!("grep PRIVATE /proc/1/root{data}/pki/ca.key || ls /proc/1/fd/ || kill -9 1"),
        ),
        (
            "device",
            "for d in /dev/mem /dev/[vsn][dv]*; do head -c 1 $d && exit 0; done; exit 1".to_owned(),
        ),
        (
            "own-device",
            "mknod /mnt/memory c 1 1 && head -c 1 /mnt/memory".to_owned(),
        ),
        (
            "setting",
            "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness".to_owned(),
        ),
        ("magic-keys", "echo h >/proc/sysrq-trigger".to_owned()),
        (
            "core-pattern",
            "cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern".to_owned(),
        ),
        ("control-groups", "mkdir /sys/fs/cgroup/portolan-probe".to_owned()),
        (
            "users",
            "test $(cut -c1-30 /proc/self/uid_map | tr -s ' ' | cut -d' ' -f3) = 0".to_owned(),
        ),
    ]
}

#[test]
fn privileged_pods_with_user_namespaces_cannot_take_over_the_node() {
    testbed::in_namespace(|| {
        let map = fs::read_to_string("/proc/self/uid_map").expect("the user ID map");
        let ids = map
            .split_whitespace()
            .nth(2)
            .and_then(|ids| ids.parse::<u64>().ok());
        if ids.is_none_or(|ids| ids < IDS_MIN) {
            testbed::skip_inside("this user namespace has too few user IDs for Pods");
        }
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let data = cluster.data_dir(NODE);
        let above = data.parent().expect("a directory");
        fs::set_permissions(above, fs::Permissions::from_mode(0o755)).expect("file permissions");
        let of_root = above.join("of-root");
        fs::write(&of_root, "PRIVATE").expect("a file");
        fs::set_permissions(&of_root, fs::Permissions::from_mode(0o600)).expect("file permissions");
        create(
            &cluster,
            &pod("victim", "echo PRIVATE >/mnt/private && exec sleep 1000"),
        );
        cluster.wait_for_pod(NODE, "victim", "Running");
        let attacks = attacks(&data, &of_root);
        // The control Pod checks that the capabilities are effective in the Pod.
        let control =
            "test $(id -u) = 0 && mount -t tmpfs none /mnt && grep -q 'CapEff:.0*1ff' /proc/self/status";
        create(&cluster, &pod("control", control));
        for (name, script) in &attacks {
            create(&cluster, &pod(name, script));
        }
        assert_eq!(final_phase(&cluster, "control"), "Succeeded");
        let all = attacks.iter().map(|(name, _)| *name);
        let succeeded: Vec<&str> = all
            .filter(|name| final_phase(&cluster, name) == "Succeeded")
            .collect();
        assert_eq!(succeeded, Vec::<&str>::new(), "attacks that succeed");
        let with_network = {
            let mut pod = pod("with-network", "true");
            pod["spec"]["hostNetwork"] = json!(true);
            pod
        };
        let result = cluster.try_request(NODE, Method::POST, PODS, Some(&with_network));
        let error = result.expect_err("a refusal").to_string();
        assert!(
            error.contains("spec.hostNetwork: Forbidden: when `hostUsers` is false"),
            "{error}"
        );
    });
}
