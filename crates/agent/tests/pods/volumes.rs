//! Volumes and security contexts of containers.

use std::fs;
use std::path::Path;

use client::MERGE_PATCH;
use http::Method;
use serde_json::json;

use crate::Outcome;
use crate::cluster::{Cluster, PODS, check, container, is_ready};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Mount points that no host has.
const MOUNT: &str = "/portolan-test-data";
const NESTED: &str = "/etc/portolan-test/config";

pub(crate) async fn volumes_are_filled_shared_and_refreshed(cluster: &mut Cluster) -> Outcome {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "red"}});
    cluster.create(CONFIG_MAPS, &config).await?;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "cw=="}});
    cluster
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await?;
    let host = cluster.path("shared");
    let script = format!(
        "cat {NESTED}/colour {MOUNT}/key >{MOUNT}/out/seen; wc -c <{MOUNT}/api/token >{MOUNT}/out/token; \
                          echo $MIXED >{MOUNT}/out/mixed; while :; do cp {NESTED}/colour {MOUNT}/meta/labels {MOUNT}/out; sleep 0.2; done"
    );
    let first = container(
        "a",
        &script,
        json!({
        "env": [{"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "MIXED", "value": "$(P_colour) $(LIMIT)"}],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
        "resources": {"limits": {"memory": "64Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": NESTED}, {"name": "empty", "mountPath": MOUNT},
            {"name": "host", "mountPath": format!("{MOUNT}/out")}, {"name": "api", "mountPath": format!("{MOUNT}/api"), "readOnly": true},
            {"name": "secret", "mountPath": format!("{MOUNT}/key"), "subPath": "renamed"},
            {"name": "meta", "mountPath": format!("{MOUNT}/meta")},
        ]}),
    );
    let second = container(
        "b",
        "sleep 1000",
        json!({
        "volumeMounts": [{"name": "empty", "mountPath": "/portolan-other"}],
        "readinessProbe": {"exec": {"command": ["/usr/bin/test", "-d", "/portolan-other/api"]}, "periodSeconds": 1, "timeoutSeconds": 30}}),
    );
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [first, second], "volumes": [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "key", "items": [{"key": "k", "path": "renamed"}]}},
        {"name": "empty", "emptyDir": {}},
        {"name": "meta", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "host", "hostPath": {"path": host, "type": "DirectoryOrCreate"}},
        {"name": "api", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
    ]});
    cluster.create_pod("filled", spec).await?;
    cluster.wait_for_pod("filled", is_ready).await?;
    let output = |name: &str| fs::read_to_string(host.join(name)).unwrap_or_default();
    cluster
        .wait_for_pod("filled", |_| output("colour") == "red")
        .await?;
    check(output("seen") == "reds", output("seen"))?;
    check(output("mixed") == "red 64\n", output("mixed"))?;
    check(output("token").trim().parse::<usize>()? > 100, output("token"))?;
    check(
        !Path::new(MOUNT).exists() && !Path::new("/etc/portolan-test").exists(),
        "the mount point was created on the node",
    )?;
    let path = format!("{CONFIG_MAPS}/settings");
    let patch = json!({"data": {"colour": "blue"}});
    cluster
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await?;
    let path = format!("{PODS}/filled");
    let patch = json!({"metadata": {"labels": {"colour": "blue"}}});
    cluster
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await?;
    cluster
        .wait_for_pod("filled", |_| {
            output("colour") == "blue" && output("labels").contains("colour=\"blue\"")
        })
        .await?;
    cluster.delete_pod("filled").await?;
    cluster.wait_until_gone("filled").await
}

pub(crate) async fn pod_waits_for_missing_source(cluster: &mut Cluster) -> Outcome {
    let main = container(
        "a",
        "sleep 1000",
        json!({"volumeMounts": [{"name": "late", "mountPath": MOUNT}]}),
    );
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main],
                      "volumes": [{"name": "late", "configMap": {"name": "late"}}]});
    cluster.create_pod("waiting", spec).await?;
    let message = cluster.event("waiting", "FailedMount").await?;
    check(
        message == "MountVolume.SetUp failed for volume \"late\" : configmap \"late\" not found",
        &message,
    )?;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {}});
    cluster.create(CONFIG_MAPS, &config).await?;
    cluster.wait_for_pod("waiting", is_ready).await?;
    cluster.delete_pod("waiting").await?;
    cluster.wait_until_gone("waiting").await
}

pub(crate) async fn security_context_applies(cluster: &mut Cluster) -> Outcome {
    let host = cluster.path("rights");
    fs::create_dir_all(&host)?;
    let script = format!(
        "(id -u; id -g; grep CapBnd /proc/self/status; grep NoNewPrivs /proc/self/status; \
                          touch /tmp/portolan-test 2>&1) >{MOUNT}/seen; sleep 1000"
    );
    let context = |fields: serde_json::Value| {
        let mut context = json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                                 "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            context[field] = value.clone();
        }
        json!({"securityContext": context, "volumeMounts": [{"name": "host", "mountPath": MOUNT}]})
    };
    let spec = |context| {
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, context)],
                                "volumes": [{"name": "host", "hostPath": {"path": host}}]})
    };
    cluster.create_pod("confined", spec(context(json!({})))).await?;
    cluster.wait_for_pod("confined", is_ready).await?;
    let seen = || fs::read_to_string(host.join("seen")).unwrap_or_default();
    cluster
        .wait_for_pod("confined", |_| seen().contains("portolan-test"))
        .await?;
    check(seen().contains("CapBnd:\t0000000000000400"), seen())?;
    check(
        seen().contains("NoNewPrivs:\t1") && seen().contains("Read-only file system"),
        seen(),
    )?;
    cluster.delete_pod("confined").await?;
    cluster.wait_until_gone("confined").await?;
    // The namespace of an unprivileged user has no other users.
    let maps_others = fs::read_to_string("/proc/self/uid_map")?
        .split_whitespace()
        .nth(2)
        .is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 1234));
    let user = json!({"runAsUser": 1234, "runAsGroup": 2345});
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&host, fs::Permissions::from_mode(0o777))?;
    fs::remove_file(host.join("seen"))?;
    cluster.create_pod("user", spec(context(user))).await?;
    if maps_others {
        cluster
            .wait_for_pod("user", |_| seen().contains("portolan-test"))
            .await?;
        check(seen().starts_with("1234\n2345\n"), seen())?;
    } else {
        let message = cluster.event("user", "Failed").await?;
        check(message.contains("an agent that does not run as root"), message)?;
    }
    cluster.delete_pod("user").await?;
    cluster.wait_until_gone("user").await?;
    let root = container("a", "true", json!({"securityContext": {"runAsNonRoot": true}}));
    cluster.create_pod("root", json!({"containers": [root]})).await?;
    let reason =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    cluster
        .wait_for_pod("root", |pod| reason(pod) == "CreateContainerConfigError")
        .await?;
    cluster.delete_pod("root").await?;
    cluster.wait_until_gone("root").await
}

pub(crate) async fn memory_volume_has_its_size_limit(cluster: &mut Cluster) -> Outcome {
    let out = cluster.path("memory");
    let script = format!(
        "stat -f -c %T {MOUNT}/mem >{0}; head -c 3000000 /dev/zero >{MOUNT}/mem/x 2>/dev/null; \
         wc -c <{MOUNT}/mem/x >>{0}; echo done >>{0}; sleep 1000",
        out.display()
    );
    let mounts = json!({"volumeMounts": [{"name": "mem", "mountPath": format!("{MOUNT}/mem")}]});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, mounts)],
        "volumes": [{"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]});
    cluster.create_pod("memory", spec).await?;
    let output = || fs::read_to_string(&out).unwrap_or_default();
    cluster
        .wait_for_pod("memory", |_| output().ends_with("done\n"))
        .await?;
    check(output() == "tmpfs\n1048576\ndone\n", output())?;
    let mounted = || {
        fs::read_to_string("/proc/self/mountinfo")
            .unwrap_or_default()
            .matches("volumes/mem")
            .count()
    };
    cluster.delete_pod("memory").await?;
    cluster.wait_until_gone("memory").await?;
    check(mounted() == 0, "the volume is still mounted")
}

pub(crate) async fn token_is_mounted_by_default(cluster: &mut Cluster) -> Outcome {
    let out = cluster.path("token");
    let directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "ls {directory} >{0}; test -s {directory}/token && cat {directory}/namespace >>{0}; echo >>{0}; sleep 1000",
        out.display()
    );
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({}))]});
    cluster.create_pod("token", spec).await?;
    let output = || fs::read_to_string(&out).unwrap_or_default();
    cluster
        .wait_for_pod("token", |_| output().ends_with("default\n"))
        .await?;
    check(output() == "ca.crt\nnamespace\ntoken\ndefault\n", output())?;
    cluster.delete_pod("token").await?;
    cluster.wait_until_gone("token").await
}
