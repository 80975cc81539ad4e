//! `portolan join`: this host as a node of a cluster that `portolan up` runs.
//!
//! The first start verifies the server by the token and requests certificates. Later starts need no token.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use agent::settings::ServerSettings;
use api::certificates::NodePart;
use clap::Args;
use client::{CertificateFiles, Client, Config};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::cluster::cluster_info::{ClusterInfo, ClusterInfoError};
use crate::cluster::discovery::discover;
use crate::cluster::join_directory::{JoinDirectory, Membership};
use crate::cluster::join_token::{AuthorityHash, JoinToken};
use crate::cluster::node_certificate::{CertificateRequest, keep_renewed};
use crate::cluster::node_components::{ComponentClients, NodeFlags};
use crate::cluster::node_proxy::check_mode;
use crate::cluster::status_file::StatusFile;
use crate::cluster::supervisor::Supervisor;
use crate::error::{CommandError, FileError, UsageError};
use crate::flags::values::{DATA_DIRECTORY, server_url};
use crate::{output, runtime, shutdown};

/// Name of standard input for --token-file.
const STANDARD_INPUT: &str = "-";
/// Maximum number of bytes of a token file. A token has about a hundred characters.
const TOKEN_BYTES_MAX: u64 = 4_096;

/// Flags of `portolan join`.
#[derive(Debug, Args)]
#[command(mut_arg("cluster_cidr", |arg| arg.help("Pod CIDRs, one per IP family; traffic to cluster IPs from outside these ranges is masqueraded [default: as in `portolan up`]")))]
#[command(mut_arg("cluster_dns", |arg| arg.help("Addresses of cluster DNS in the resolv.conf of Pods [default: as in `portolan up`]")))]
#[command(mut_arg("node_lease_duration_seconds", |arg| arg.help("Duration of the Node's Lease, 1 to 3600; it is renewed every quarter [default: as in `portolan up`]")))]
pub(crate) struct Flags {
    /// URLs of the cluster's API servers, such as https://192.0.2.1:6443; needed to join, not for later starts
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]", value_parser = server_url)]
    server: Vec<String>,
    /// Join token of `portolan token create`; visible in the process list, unlike --token-file
    #[arg(long, conflicts_with = "token_file", value_name = "TOKEN")]
    token: Option<JoinToken>,
    /// File with the join token, or - for standard input
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Hash of the cluster CA, if the token does not contain it
    #[arg(long, value_name = "sha256:HEX")]
    ca_hash: Option<AuthorityHash>,
    /// Directory of all data: certificates, Pods
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    node: NodeFlags,
}

/// Reason why this host cannot join or restart as a node.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(
        "the cluster rejects the certificate of this node: its Node was removed, or another host has joined with its \
         name.\nJoin again with --server and a --token of `portolan token create --print-join-command`"
    )]
    Rejected,
    #[error(
        "the certificate of this node has expired.\nJoin again with --server and a --token of `portolan token create \
         --replace NODE --print-join-command`, where NODE is its name"
    )]
    Expired,
    #[error("this node has no certificate: an earlier join failed.\nJoin again with --server and a --token")]
    Incomplete,
    #[error(
        "the server does not publish the settings of its nodes; hosts can only join clusters that `portolan up` runs"
    )]
    NoSettings,
}

/// Joins if necessary, and runs the node until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid, a privilege is missing, or the cluster rejects this host.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    check_mode(flags.node.proxy.mode())?;
    let runtime = runtime::of_component(2)?;
    runtime.block_on(async {
        let directory = JoinDirectory::below(&flags.data_dir);
        let status = StatusFile::open(&flags.data_dir, &directory.kubeconfig_path())?;
        let membership = flags.ensure_membership(&directory).await?;
        let node = JoinedNode {
            directory,
            membership,
        };
        node.run(&flags, Arc::new(status)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Flags {
    /// Returns the stored membership if the cluster still accepts it, otherwise joins with the token.
    async fn ensure_membership(&self, directory: &JoinDirectory) -> Result<Membership, CommandError> {
        let name = self.node.proxy.valid_node_name()?;
        if let Some(stored) = directory.membership()? {
            if self.node.proxy.hostname_override.is_some() && stored.node_name != name {
                return Err(UsageError(format!(
                    "this host has joined as {:?}, not as {name:?}; run `portolan leave --data-dir {}` first",
                    stored.node_name,
                    self.data_dir.display()
                ))
                .into());
            }
            self.check_cluster(directory, &stored)?;
            let certificate = CertificateRequest::agent(&stored.node_name).stored(directory);
            let reason = match certificate {
                Some(certificate) if !certificate.is_expired(Timestamp::now()) => {
                    match self.refresh(directory, stored).await? {
                        Some(membership) => return Ok(membership),
                        None => JoinError::Rejected,
                    }
                }
                Some(_) => JoinError::Expired,
                None => JoinError::Incomplete,
            };
            if !self.has_token() {
                return Err(reason.into());
            }
        }
        let (Some(token), false) = (self.token()?, self.server.is_empty()) else {
            return Err(UsageError::new(
                "this host has not joined yet: --server and --token or --token-file are needed, as `portolan token create \
                 --print-join-command` prints them on the server",
            )
            .into());
        };
        let Some(hash) = token.hash.or(self.ca_hash) else {
            return Err(UsageError::new(
                "the token does not contain the hash of the cluster CA, with which the server is verified: add --ca-hash, \
                 as `portolan token create` prints it",
            )
            .into());
        };
        self.join(directory, &name, &token, hash).await
    }

    /// Checks that the token is for the cluster that this host has joined.
    fn check_cluster(&self, directory: &JoinDirectory, stored: &Membership) -> Result<(), CommandError> {
        let token = if self.has_token() { self.token()? } else { None };
        let expected = token.and_then(|token| token.hash).or(self.ca_hash);
        let (Some(expected), Some(found)) = (expected, AuthorityHash::of(&directory.authority()?)) else {
            return Ok(());
        };
        if expected == found {
            return Ok(());
        }
        Err(UsageError(format!(
            "this host has joined another cluster, as Node {}, whose CA is {found}; the token is for {expected}; run \
             `portolan leave --data-dir {}` first",
            stored.node_name,
            self.data_dir.display()
        ))
        .into())
    }

    /// Returns true if a token is given. The token file of a node that has joined may be deleted.
    fn has_token(&self) -> bool {
        let exists = |file: &PathBuf| file.as_os_str() == STANDARD_INPUT || file.exists();
        self.token.is_some() || self.token_file.as_ref().is_some_and(exists)
    }

    fn token(&self) -> Result<Option<JoinToken>, CommandError> {
        let Some(file) = &self.token_file else {
            return Ok(self.token.clone());
        };
        let mut text = String::new();
        let read = if file.as_os_str() == STANDARD_INPUT {
            std::io::stdin().take(TOKEN_BYTES_MAX).read_to_string(&mut text)
        } else {
            File::open(file).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text))
        };
        read.map_err(FileError::at(file))
            .map_err(|error| format!("--token-file {error}"))?;
        let token = text.trim().parse::<JoinToken>();
        let token = token.map_err(|error| UsageError(format!("--token-file {}: {error}", file.display())))?;
        Ok(Some(token))
    }

    /// Updates the stored membership with the settings of the cluster, if a server responds. Returns `None`
    /// if the cluster rejects the certificate.
    async fn refresh(
        &self,
        directory: &JoinDirectory,
        mut membership: Membership,
    ) -> Result<Option<Membership>, CommandError> {
        for server in &self.server {
            if !membership.servers.contains(server) {
                membership.servers.push(server.clone());
            }
        }
        tracing::info!(
            node = membership.node_name,
            "membership of an earlier start found"
        );
        let agent = CertificateRequest::agent(&membership.node_name);
        let client = directory.client(&membership, agent.component)?;
        match ClusterInfo::read(&client).await {
            Ok(info) => membership.cluster = info.settings.unwrap_or(membership.cluster),
            Err(ClusterInfoError::Client(error)) if error.code() == Some(401) => return Ok(None),
            Err(error) => tracing::warn!(%error, "settings of the cluster not read; using the stored ones"),
        }
        directory.write_membership(&membership)?;
        Ok(Some(membership))
    }

    /// Verifies the server, requests the certificate of the agent, and stores the membership.
    async fn join(
        &self,
        directory: &JoinDirectory,
        name: &str,
        token: &JoinToken,
        hash: AuthorityHash,
    ) -> Result<Membership, CommandError> {
        output::print_message(&format!("Verifying {} …\n", self.server.join(", ")));
        let info = discover(&self.server, hash).await?;
        let settings = info.settings.ok_or(JoinError::NoSettings)?;
        directory.write_authority(&info.authority)?;
        let client = Client::new(Config {
            token: Some(token.token.to_string()),
            ..directory.config(&self.server)?
        })?;
        output::print_message(&format!("Requesting a certificate for Node {name} …\n"));
        CertificateRequest::agent(name).obtain(&client, directory).await?;
        // Certificates of an earlier membership are invalid now.
        for part in NodePart::ALL {
            CertificateRequest::part(part, name).remove(directory)?;
        }
        let membership = Membership {
            node_name: name.to_owned(),
            servers: self.server.clone(),
            cluster: settings,
        };
        directory.write_membership(&membership)?;
        Ok(membership)
    }
}

/// Node that has joined.
struct JoinedNode {
    directory: JoinDirectory,
    membership: Membership,
}

impl JoinedNode {
    /// Runs the components of the node until a signal requests shutdown.
    async fn run(self, flags: &Flags, status: Arc<StatusFile>) -> Result<(), CommandError> {
        let node_name = self.membership.node_name.clone();
        let mut node_flags = flags.node.clone();
        node_flags.proxy.hostname_override = Some(node_name.clone());
        let components = node_flags.components(&flags.data_dir, &self.membership.cluster)?;
        let serving = CertificateRequest::serving(&node_name, components.agent_endpoint.ip());
        let authority = self.directory.authority()?;
        serving.remove_if_signed_by(&authority, &self.directory)?;
        let agent = CertificateRequest::agent(&node_name);
        let agent_client = self.client(&agent)?;
        let clients = self.component_clients(&agent_client).await?;
        let path = self.directory.certificate_path(serving.component);
        let endpoint = ServerSettings {
            listen: components.agent_endpoint,
            certificate: Arc::new(CertificateFiles::new(path.clone(), path)),
            client_authority: authority.into_bytes(),
        };
        let parts = NodePart::ALL.map(|part| CertificateRequest::part(part, &node_name));
        let requests: Vec<CertificateRequest> = [agent, serving].into_iter().chain(parts).collect();
        status.set_node_name(&node_name);
        let (request_shutdown, shutdown) = watch::channel(false);
        let mut supervisor = Supervisor::new(status, shutdown);
        start_renewal(&mut supervisor, agent_client, self.directory, requests);
        components.start(&mut supervisor, clients, endpoint, None);
        output::print_message(&format!(
            "This host is Node {node_name} of the cluster. `portolan status --data-dir {}` shows its components.\n",
            flags.data_dir.display()
        ));
        shutdown::signal_received().await;
        request_shutdown.send_replace(true);
        supervisor.join().await;
        Ok(())
    }

    /// Returns the clients of the components, after requests for missing certificates.
    async fn component_clients(&self, agent: &Client) -> Result<ComponentClients, CommandError> {
        for part in NodePart::ALL {
            let request = CertificateRequest::part(part, &self.membership.node_name);
            let is_needed = request
                .stored(&self.directory)
                .is_none_or(|certificate| certificate.is_expired(Timestamp::now()));
            if is_needed {
                request.obtain(agent, &self.directory).await?;
            }
        }
        let client = |part| self.client(&CertificateRequest::part(part, &self.membership.node_name));
        Ok(ComponentClients {
            agent: agent.clone(),
            proxy: client(NodePart::Proxy)?,
            dns: client(NodePart::Dns)?,
            announcer: client(NodePart::Announcer)?,
            edge: client(NodePart::Edge)?,
        })
    }

    fn client(&self, request: &CertificateRequest) -> Result<Client, CommandError> {
        Ok(self.directory.client(&self.membership, request.component)?)
    }
}

fn start_renewal(
    supervisor: &mut Supervisor,
    client: Client,
    directory: JoinDirectory,
    requests: Vec<CertificateRequest>,
) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("certificates", move || {
        let renewal = keep_renewed(client.clone(), directory.clone(), requests.clone());
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move {
            tokio::select! {
                () = renewal => {}
                () = shutdown => {}
            }
            Ok(())
        }
    });
}
