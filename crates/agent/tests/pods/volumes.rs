//! What containers find in their files, and what they may do.

use std::fs;
use std::path::Path;

use client::MERGE_PATCH;
use http::Method;
use serde_json::json;

use crate::Outcome;
use crate::world::{World, check, container, is_ready};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Directories that no machine has.
const MOUNT: &str = "/portolan-test-data";
const NESTED: &str = "/etc/portolan-test/config";

pub async fn volumes_are_filled_shared_and_refreshed(world: &mut World) -> Outcome {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "red"}});
    world.create(CONFIG_MAPS, &config).await?;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "cw=="}});
    world
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await?;
    let host = world.path("shared");
    let script = format!(
        "cat {NESTED}/colour {MOUNT}/key >{MOUNT}/out/seen; wc -c <{MOUNT}/api/token >{MOUNT}/out/token; \
                          echo $MIXED >{MOUNT}/out/mixed; while :; do cp {NESTED}/colour {MOUNT}/out/colour; sleep 0.2; done"
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
        {"name": "host", "hostPath": {"path": host, "type": "DirectoryOrCreate"}},
        {"name": "api", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
    ]});
    world.create_pod("filled", spec).await?;
    world.pod_when("filled", is_ready).await?;
    let said = |name: &str| fs::read_to_string(host.join(name)).unwrap_or_default();
    world.pod_when("filled", |_| said("colour") == "red").await?;
    check(said("seen") == "reds", said("seen"))?;
    check(said("mixed") == "red 64\n", said("mixed"))?;
    check(said("token").trim().parse::<usize>()? > 100, said("token"))?;
    check(
        !Path::new(MOUNT).exists() && !Path::new("/etc/portolan-test").exists(),
        "made on the node",
    )?;
    let path = format!("{CONFIG_MAPS}/settings");
    let patch = json!({"data": {"colour": "blue"}});
    world
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await?;
    world.pod_when("filled", |_| said("colour") == "blue").await?;
    world.delete_pod("filled").await?;
    world.until_gone("filled").await
}

pub async fn a_volume_that_is_not_there_is_waited_for(world: &mut World) -> Outcome {
    let main = container(
        "a",
        "sleep 1000",
        json!({"volumeMounts": [{"name": "late", "mountPath": MOUNT}]}),
    );
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main],
                      "volumes": [{"name": "late", "configMap": {"name": "late"}}]});
    world.create_pod("waiting", spec).await?;
    let message = world.event("waiting", "FailedMount").await?;
    check(
        message == "MountVolume.SetUp failed for volume \"late\" : configmap \"late\" not found",
        &message,
    )?;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {}});
    world.create(CONFIG_MAPS, &config).await?;
    world.pod_when("waiting", is_ready).await?;
    world.delete_pod("waiting").await?;
    world.until_gone("waiting").await
}

pub async fn rights_are_given_up(world: &mut World) -> Outcome {
    let host = world.path("rights");
    fs::create_dir_all(&host)?;
    let script = format!(
        "(id -u; id -g; grep CapBnd /proc/self/status; grep NoNewPrivs /proc/self/status; \
                          touch /tmp/portolan-test 2>&1) >{MOUNT}/seen; sleep 1000"
    );
    let context = |more: serde_json::Value| {
        let mut context = json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                                 "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}});
        for (field, value) in more.as_object().into_iter().flatten() {
            context[field] = value.clone();
        }
        json!({"securityContext": context, "volumeMounts": [{"name": "host", "mountPath": MOUNT}]})
    };
    let spec = |context| {
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, context)],
                                "volumes": [{"name": "host", "hostPath": {"path": host}}]})
    };
    world.create_pod("confined", spec(context(json!({})))).await?;
    world.pod_when("confined", is_ready).await?;
    let seen = || fs::read_to_string(host.join("seen")).unwrap_or_default();
    world
        .pod_when("confined", |_| seen().contains("portolan-test"))
        .await?;
    check(seen().contains("CapBnd:\t0000000000000400"), seen())?;
    check(
        seen().contains("NoNewPrivs:\t1") && seen().contains("Read-only file system"),
        seen(),
    )?;
    world.delete_pod("confined").await?;
    world.until_gone("confined").await?;
    // An ordinary user's namespace has no other users.
    let maps_others = fs::read_to_string("/proc/self/uid_map")?
        .split_whitespace()
        .nth(2)
        .is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 1234));
    let user = json!({"runAsUser": 1234, "runAsGroup": 2345});
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&host, fs::Permissions::from_mode(0o777))?;
    fs::remove_file(host.join("seen"))?;
    world.create_pod("user", spec(context(user))).await?;
    if maps_others {
        world
            .pod_when("user", |_| seen().contains("portolan-test"))
            .await?;
        check(seen().starts_with("1234\n2345\n"), seen())?;
    } else {
        let message = world.event("user", "Failed").await?;
        check(message.contains("an agent that does not run as root"), message)?;
    }
    world.delete_pod("user").await?;
    world.until_gone("user").await?;
    let root = container("a", "true", json!({"securityContext": {"runAsNonRoot": true}}));
    world.create_pod("root", json!({"containers": [root]})).await?;
    let reason =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    world
        .pod_when("root", |pod| reason(pod) == "CreateContainerConfigError")
        .await?;
    world.delete_pod("root").await?;
    world.until_gone("root").await
}

pub async fn memory_is_a_volume_of_its_size(world: &mut World) -> Outcome {
    let out = world.path("memory");
    let script = format!(
        "stat -f -c %T {MOUNT}/mem >{0}; head -c 3000000 /dev/zero >{MOUNT}/mem/x 2>/dev/null; \
         wc -c <{MOUNT}/mem/x >>{0}; echo done >>{0}; sleep 1000",
        out.display()
    );
    let mounts = json!({"volumeMounts": [{"name": "mem", "mountPath": format!("{MOUNT}/mem")}]});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, mounts)],
        "volumes": [{"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]});
    world.create_pod("memory", spec).await?;
    let said = || fs::read_to_string(&out).unwrap_or_default();
    world.pod_when("memory", |_| said().ends_with("done\n")).await?;
    check(said() == "tmpfs\n1048576\ndone\n", said())?;
    let mounted = || {
        fs::read_to_string("/proc/self/mountinfo")
            .unwrap_or_default()
            .matches("volumes/mem")
            .count()
    };
    world.delete_pod("memory").await?;
    world.until_gone("memory").await?;
    check(mounted() == 0, "the volume is still mounted")
}

pub async fn a_token_is_there_unasked(world: &mut World) -> Outcome {
    let out = world.path("token");
    let place = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "ls {place} >{0}; test -s {place}/token && cat {place}/namespace >>{0}; echo >>{0}; sleep 1000",
        out.display()
    );
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({}))]});
    world.create_pod("token", spec).await?;
    let said = || fs::read_to_string(&out).unwrap_or_default();
    world.pod_when("token", |_| said().ends_with("default\n")).await?;
    check(said() == "ca.crt\nnamespace\ntoken\ndefault\n", said())?;
    world.delete_pod("token").await?;
    world.until_gone("token").await
}
