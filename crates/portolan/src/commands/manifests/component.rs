//! Objects that several components have: account, roles, workload, budget and network policy.

use serde_json::{Value, json};

/// User of the images of components without privileges, as in `tools/image`.
const USER: u32 = 65_532;
/// Seconds in which a component shuts down.
const TERMINATION_GRACE_PERIOD_SECONDS: u32 = 30;

/// Component with a ServiceAccount and a workload of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component<'a> {
    /// Name of all its objects.
    pub name: &'static str,
    /// Value of the label `app.kubernetes.io/name`, by which `deploy/monitoring` selects Pods.
    pub application: &'static str,
    /// Namespace of its Pods.
    pub namespace: &'a str,
}

impl Component<'_> {
    /// Returns the labels that select the Pods.
    fn selector(&self) -> Value {
        let part = self.name.trim_start_matches("portolan-");
        json!({"app.kubernetes.io/name": self.application, "app.kubernetes.io/component": part})
    }

    /// Returns the labels of all objects.
    fn labels(&self) -> Value {
        let mut labels = self.selector();
        labels["app.kubernetes.io/part-of"] = json!("portolan");
        labels
    }

    /// Returns the metadata of an object in the namespace of the Pods.
    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels()})
    }

    /// Returns the metadata of an object without a namespace.
    fn cluster_metadata(&self) -> Value {
        json!({"name": self.name, "labels": self.labels()})
    }

    /// Returns the subject of role bindings.
    fn subjects(&self) -> Value {
        json!([{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}])
    }

    /// Returns the ServiceAccount.
    pub(super) fn service_account(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata()})
    }

    /// Returns a ClusterRole with these rules, and its binding.
    pub(super) fn cluster_rights(&self, rules: &Value) -> [Value; 2] {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": self.cluster_metadata(),
            "rules": rules,
        });
        [role, self.cluster_role_binding(self.name, self.name)]
    }

    /// Returns a binding to a ClusterRole.
    pub(super) fn cluster_role_binding(&self, name: &str, role: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": self.labels()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": self.subjects(),
        })
    }

    /// Returns a Role with these rules in a namespace, and its binding.
    pub(super) fn rights_in(&self, namespace: &str, rules: &Value) -> [Value; 2] {
        let metadata = json!({"name": self.name, "namespace": namespace, "labels": self.labels()});
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name},
            "subjects": self.subjects(),
        });
        [role, binding]
    }

    /// Returns a budget that keeps all but one Pod during evictions.
    pub(super) fn disruption_budget(&self) -> Value {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": self.metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": self.selector()}},
        })
    }

    /// Returns a policy that permits connections to these ports only, given as pairs of protocol and port.
    pub(super) fn network_policy(&self, ports: &[(&str, u16)]) -> Value {
        let ports: Vec<Value> = ports
            .iter()
            .map(|(protocol, port)| json!({"protocol": protocol, "port": port}))
            .collect();
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(),
            "spec": {
                "podSelector": {"matchLabels": self.selector()},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        })
    }

    /// Returns a DaemonSet of Pods on the network of every node.
    pub(super) fn daemon_set(&self, scraped_port: Option<u16>, mut pod: Value) -> Value {
        pod["hostNetwork"] = json!(true);
        pod["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        pod["tolerations"] = json!([{"operator": "Exists"}]);
        pod["priorityClassName"] = json!("system-node-critical");
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": self.metadata(),
            "spec": {
                "selector": {"matchLabels": self.selector()},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
                "template": self.template(scraped_port, &json!({}), pod),
            },
        })
    }

    /// Returns a Deployment of Pods without privileges on different nodes, with further labels.
    pub(super) fn deployment(
        &self,
        replicas: u32,
        scraped_port: u16,
        labels: &Value,
        mut pod: Value,
    ) -> Value {
        pod["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        pod["tolerations"] = json!([
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ]);
        pod["priorityClassName"] = json!("system-cluster-critical");
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": self.selector()},
        }]);
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": self.selector()},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "template": self.template(Some(scraped_port), labels, pod),
            },
        })
    }

    /// Returns the template of the Pods.
    fn template(&self, scraped_port: Option<u16>, labels: &Value, mut pod: Value) -> Value {
        pod["serviceAccountName"] = json!(self.name);
        pod["terminationGracePeriodSeconds"] = json!(TERMINATION_GRACE_PERIOD_SECONDS);
        let mut all_labels = self.labels();
        if let (Some(all), Some(labels)) = (all_labels.as_object_mut(), labels.as_object()) {
            all.extend(labels.clone());
        }
        let mut metadata = json!({"labels": all_labels});
        if let Some(port) = scraped_port {
            metadata["annotations"] =
                json!({"prometheus.io/scrape": "true", "prometheus.io/port": port.to_string()});
        }
        json!({"metadata": metadata, "spec": pod})
    }
}

/// Returns the security context of a Pod without privileges.
pub(super) fn unprivileged_pod() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Returns the security context of a Pod whose containers run as root with few capabilities.
pub(super) fn root_pod() -> Value {
    json!({"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}})
}

/// Returns the security context of a container with these capabilities only.
pub(super) fn container_with(capabilities: &[&str]) -> Value {
    let mut permitted = json!({"drop": ["ALL"]});
    if !capabilities.is_empty() {
        permitted["add"] = json!(capabilities);
    }
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": permitted})
}

/// Returns a probe by HTTP. A host is needed for servers that do not listen on the address of the Pod.
pub(super) fn http_probe(host: Option<&str>, path: &str, port: u16) -> Value {
    let mut request = json!({"path": path, "port": port});
    if let Some(host) = host {
        request["host"] = json!(host);
    }
    json!({"httpGet": request, "timeoutSeconds": 5})
}

/// Returns a probe by HTTP that succeeds soon after the start.
pub(super) fn readiness_probe(host: Option<&str>, path: &str, port: u16) -> Value {
    let mut probe = http_probe(host, path, port);
    probe["periodSeconds"] = json!(2);
    probe
}

/// Returns the port of metrics, under the name that `deploy/monitoring` selects.
pub(super) fn metrics_port(port: u16) -> Value {
    json!({"name": "metrics", "containerPort": port, "protocol": "TCP"})
}

/// Returns the variable NODE_NAME with the name of the Node of the Pod.
pub(super) fn node_name() -> Value {
    json!({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
}
