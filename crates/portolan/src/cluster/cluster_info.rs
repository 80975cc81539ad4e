//! Settings that all nodes of a cluster share, and the ConfigMap `cluster-info` in `kube-public` that publishes them.
//!
//! Clients without credentials may read the ConfigMap, as kubeadm's. Its entry `kubeconfig` is kubeadm's, too.

use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use routes::Network;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Store;

/// Path of the ConfigMap.
pub(crate) const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// Entry of the ConfigMap with the [`ClusterSettings`].
const SETTINGS: &str = "portolan";
const NAME: &str = "cluster-info";
/// Role and RoleBinding of its readers.
const READER: &str = "portolan:cluster-info";

/// Settings that all nodes of a cluster share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterSettings {
    /// Pod CIDRs of the cluster, one per IP family.
    pub cluster_cidrs: Vec<IpNet>,
    /// Addresses of cluster DNS in the resolv.conf of Pods.
    pub cluster_dns: Vec<IpAddr>,
    /// DNS zone of the cluster.
    pub cluster_domain: String,
    /// DNS zone of the set of clusters; `None` outside of a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusterset_domain: Option<String>,
    /// Pod network between nodes.
    pub network: Network,
    /// Duration of the Lease of a Node.
    pub node_lease_duration_seconds: u16,
}

/// Content of `cluster-info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterInfo {
    /// URL of an API server, as other hosts reach it.
    pub server: String,
    /// Cluster CA certificate, PEM.
    pub authority: String,
    /// Settings of the nodes; `None` if `portolan up` did not create the cluster.
    pub settings: Option<ClusterSettings>,
}

/// Failed read or write of `cluster-info`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterInfoError {
    /// The request failed.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The content is invalid. A restart of `portolan up` writes it again.
    #[error("invalid ConfigMap kube-public/{NAME}: {0}")]
    Invalid(String),
    /// The content cannot be encoded.
    #[error("ConfigMap kube-public/{NAME} not encoded: {0}")]
    Encode(#[from] serde_json::Error),
    /// The store belongs to a cluster with another CA. Certificates of one server would be invalid at the other.
    #[error(
        "the stored data belong to a cluster with another CA; before the first start, copy the directory pki of the other \
         server's --data-dir into the --data-dir of this one"
    )]
    OtherAuthority,
}

/// kubeconfig with the address of a cluster and without credentials.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kubeconfig {
    api_version: String,
    kind: String,
    clusters: Vec<NamedCluster>,
}

/// Entry of the list of clusters.
#[derive(Serialize, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

/// Address and certificate authority of a cluster.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

impl ClusterInfo {
    /// Reads the ConfigMap.
    ///
    /// # Errors
    ///
    /// [`ClusterInfoError`] if the request fails or the content is invalid.
    pub(crate) async fn read(client: &Client) -> Result<Self, ClusterInfoError> {
        let object: Value = client.get(PATH).await?;
        Self::parse(&object)
    }

    /// Parses the ConfigMap.
    ///
    /// # Errors
    ///
    /// [`ClusterInfoError::Invalid`] with the first violation.
    pub(crate) fn parse(object: &Value) -> Result<Self, ClusterInfoError> {
        let entry = |name: &str| object["data"][name].as_str();
        let text = entry("kubeconfig").ok_or_else(|| invalid("it has no entry kubeconfig"))?;
        let kubeconfig: Kubeconfig = serde_saphyr::from_str(text).map_err(invalid)?;
        let [NamedCluster { cluster, .. }] = kubeconfig.clusters.as_slice() else {
            let count = kubeconfig.clusters.len();
            return Err(invalid(format!(
                "expected one cluster in its kubeconfig, found {count}"
            )));
        };
        let authority = STANDARD.decode(&cluster.certificate_authority_data);
        let settings = entry(SETTINGS).map(serde_json::from_str).transpose();
        Ok(Self {
            server: cluster.server.clone(),
            authority: String::from_utf8(authority.map_err(invalid)?).map_err(invalid)?,
            settings: settings.map_err(invalid)?,
        })
    }

    fn object(&self) -> Result<Value, serde_json::Error> {
        let kubeconfig = Kubeconfig {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            clusters: vec![NamedCluster {
                name: String::new(),
                cluster: Cluster {
                    server: self.server.clone(),
                    certificate_authority_data: STANDARD.encode(&self.authority),
                },
            }],
        };
        // JSON is YAML.
        let mut data = json!({"kubeconfig": serde_json::to_string(&kubeconfig)?});
        if let Some(settings) = &self.settings {
            data[SETTINGS] = json!(serde_json::to_string(settings)?);
        }
        Ok(json!({"apiVersion": "v1", "kind": "ConfigMap",
                  "metadata": {"name": NAME, "namespace": "kube-public"}, "data": data}))
    }

    /// Writes the ConfigMap, and the Role and RoleBinding of its readers.
    ///
    /// # Errors
    ///
    /// [`ClusterInfoError`] if a request fails.
    pub(crate) async fn publish(&self, client: &Client) -> Result<(), ClusterInfoError> {
        let object = self.object()?;
        match client.get::<Value>(PATH).await {
            Ok(_) => drop(
                client
                    .request(Method::PATCH, PATH, MERGE_PATCH, Some(&object))
                    .await?,
            ),
            Err(error) if error.is_not_found() => {
                let collection = PATH.trim_end_matches(NAME).trim_end_matches('/');
                create_if_absent(client, collection, &object).await?;
            }
            Err(error) => return Err(error.into()),
        }
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public";
        let group = "rbac.authorization.k8s.io";
        let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role",
            "metadata": {"name": READER, "namespace": "kube-public"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get"]}]});
        let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": READER, "namespace": "kube-public"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": READER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "system:anonymous"},
                         {"apiGroup": group, "kind": "Group", "name": "system:authenticated"}]});
        create_if_absent(client, &format!("{rbac}/roles"), &role).await?;
        create_if_absent(client, &format!("{rbac}/rolebindings"), &binding).await?;
        Ok(())
    }
}

fn invalid(reason: impl ToString) -> ClusterInfoError {
    ClusterInfoError::Invalid(reason.to_string())
}

async fn create_if_absent(client: &Client, collection: &str, object: &Value) -> Result<(), ClientError> {
    match client.request(Method::POST, collection, JSON, Some(object)).await {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Checks that shared data belong to a cluster with the CA of this server, whose certificate is in a file.
///
/// # Errors
///
/// [`ClusterInfoError::OtherAuthority`] if the data name another CA.
pub(crate) fn check_authority(store: &dyn Store, certificate: &Path) -> Result<(), ClusterInfoError> {
    let kind = api::kind::find("", "v1", "configmaps").ok_or_else(|| invalid("ConfigMaps are not served"))?;
    let Some(entry) = store.index().get(&kind.store_key("kube-public", NAME)) else {
        return Ok(());
    };
    let object = serde_json::from_slice(&entry.value).map_err(invalid)?;
    // Invalid content comes from a user. The start overwrites it.
    let Ok(stored) = ClusterInfo::parse(&object) else {
        return Ok(());
    };
    let own = std::fs::read_to_string(certificate).unwrap_or_default();
    if own.trim() == stored.authority.trim() {
        Ok(())
    } else {
        Err(ClusterInfoError::OtherAuthority)
    }
}

#[cfg(test)]
mod tests;
