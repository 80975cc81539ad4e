//! What every machine of a cluster must know alike, and where those that join find it: the ConfigMap `cluster-info` in
//! `kube-public`, which anybody may read, as upstream's kubeadm has it.

use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use routes::Network;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Store;

use super::Failure;

/// Where the ConfigMap is.
pub const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// The entry with the settings; `kubeconfig` is upstream's.
const SETTINGS: &str = "portolan";
const NAME: &str = "cluster-info";
/// Who may read it besides those that have proved who they are.
const READER: &str = "portolan:cluster-info";

/// Flags that say how packets get from one machine to the Pods of another.
#[derive(Clone, Debug, Args)]
pub struct NetworkFlags {
    /// How packets get from one machine to the Pods of another
    #[arg(long, default_value = "host-gw", value_name = "MODE")]
    network: NetworkMode,
    /// Identifier of the VXLAN, 1 to 16777215
    #[arg(long, default_value_t = 4096, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    vxlan_id: u32,
    /// UDP port of the VXLAN; 8472 is what Linux used before 4789 was given to it
    #[arg(long, default_value_t = 4789, value_name = "PORT")]
    vxlan_port: u16,
}

/// How packets get from one machine to the Pods of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NetworkMode {
    /// By routes to the other machines, which are on one segment
    HostGw,
    /// Wrapped in UDP, through any network
    Vxlan,
    /// Something else sees to it
    None,
}

impl NetworkFlags {
    /// What they say.
    pub fn network(&self) -> Network {
        match self.network {
            NetworkMode::HostGw => Network::HostGw,
            NetworkMode::Vxlan => Network::Vxlan {
                id: self.vxlan_id,
                port: self.vxlan_port,
            },
            NetworkMode::None => Network::None,
        }
    }
}

/// What every machine must know alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSettings {
    /// The ranges of all Pods, one a family.
    pub cluster_cidrs: Vec<IpNet>,
    /// The cluster's DNS, for the Pods' resolv.conf.
    pub cluster_dns: Vec<IpAddr>,
    /// The zone of the cluster.
    pub cluster_domain: String,
    /// How packets get from one machine to the Pods of another.
    pub network: Network,
    /// Seconds that the Lease of a Node lasts.
    pub node_lease_duration_seconds: u16,
}

/// What `cluster-info` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// A server of the cluster, as others reach it.
    pub server: String,
    /// The certificate of the cluster's authority, PEM.
    pub authority: String,
    /// What machines must know alike; `None` if the cluster is somebody else's.
    pub settings: Option<ClusterSettings>,
}

/// A kubeconfig that says where a cluster is, and nothing of who asks.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kubeconfig {
    api_version: String,
    kind: String,
    clusters: Vec<NamedCluster>,
}

#[derive(Serialize, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

impl ClusterInfo {
    /// Reads what a server says of its cluster.
    pub async fn read(client: &Client) -> Result<Self, Failure> {
        let object: Value = client.get(PATH).await?;
        Self::parse(&object)
    }

    fn parse(object: &Value) -> Result<Self, Failure> {
        let entry = |name: &str| object["data"][name].as_str();
        let unusable = |why: &str| format!("the ConfigMap kube-public/{NAME} cannot be used: {why}");
        let text = entry("kubeconfig").ok_or_else(|| unusable("it has no kubeconfig"))?;
        let kubeconfig: Kubeconfig =
            serde_saphyr::from_str(text).map_err(|error| unusable(&error.to_string()))?;
        let [NamedCluster { cluster, .. }] = kubeconfig.clusters.as_slice() else {
            return Err(unusable("its kubeconfig names not one cluster").into());
        };
        let authority = STANDARD.decode(&cluster.certificate_authority_data);
        let authority = authority.map_err(|error| unusable(&error.to_string()))?;
        let settings = entry(SETTINGS).map(serde_json::from_str).transpose();
        Ok(Self {
            server: cluster.server.clone(),
            authority: String::from_utf8(authority).map_err(|error| unusable(&error.to_string()))?,
            settings: settings.map_err(|error| unusable(&error.to_string()))?,
        })
    }

    fn object(&self) -> Result<Value, Failure> {
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

    /// Writes it down for those that join, and lets anybody read it.
    pub async fn publish(&self, client: &Client) -> Result<(), Failure> {
        let object = self.object()?;
        match client.get::<Value>(PATH).await {
            Ok(_) => drop(
                client
                    .request(Method::PATCH, PATH, MERGE_PATCH, Some(&object))
                    .await?,
            ),
            Err(error) if error.is_not_found() => {
                let collection = PATH.trim_end_matches(NAME).trim_end_matches('/');
                unless_there(
                    client
                        .request(Method::POST, collection, JSON, Some(&object))
                        .await,
                )?;
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
        for (plural, object) in [("roles", role), ("rolebindings", binding)] {
            let path = format!("{rbac}/{plural}");
            unless_there(client.request(Method::POST, &path, JSON, Some(&object)).await)?;
        }
        Ok(())
    }
}

/// An error if shared data are of a cluster with another authority than the one in `certificate`: two servers with
/// different ones would each take what the other has signed for forged.
pub fn check_authority(store: &dyn Store, certificate: &Path) -> Result<(), Failure> {
    let kind = api::kind::find("", "v1", "configmaps").ok_or("ConfigMaps are not served")?;
    let Some(entry) = store.index().get(&kind.store_key("kube-public", NAME)) else {
        return Ok(());
    };
    let object = serde_json::from_slice(&entry.value)?;
    // What cannot be read, somebody has changed: it is written anew.
    let Ok(present) = ClusterInfo::parse(&object) else {
        return Ok(());
    };
    let own = std::fs::read_to_string(certificate).unwrap_or_default();
    match own.trim() == present.authority.trim() {
        true => Ok(()),
        false => Err(OTHER_AUTHORITY.into()),
    }
}

/// What to do when two servers of a cluster do not have the same authority.
const OTHER_AUTHORITY: &str = "the data are of a cluster with another authority; copy the directory pki of the other \
                               server's --data-dir into this one's before the first start, so that both have the same";

fn unless_there(result: Result<Value, ClientError>) -> Result<(), ClientError> {
    match result {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
