//! `portolan join`: this machine as one of a cluster's. It learns whom to trust ([`trust`]), asks for its certificates
//! ([`certificate`]), keeps what it is told ([`membership`]), and runs what every machine runs ([`super::machine`]).

pub mod certificate;
pub mod membership;
pub mod token;
mod trust;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::settings::ServerSettings;
use api::certificates::NodePart;
use clap::Args;
use client::{CertificateFiles, Client, ClientError, Config};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::ClusterInfo;
use super::machine::{Clients, MachineFlags, check_rights, until};
use super::up::board::Board;
use super::up::supervise::supervise;
use super::{Failure, runtime};
use crate::flags::BadValue;
use certificate::Wanted;
use membership::Membership;
use token::{AuthorityHash, JoinToken};

/// How long a request for a certificate may wait for its approval.
const APPROVAL_PATIENCE: Duration = Duration::from_secs(60);
/// How often certificates are looked at, and those that are missing asked for again.
const RENEWAL_PERIOD: Duration = Duration::from_secs(600);
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Flags of `portolan join`.
#[derive(Debug, Args)]
pub struct Flags {
    /// URL of the cluster's API, such as https://192.0.2.1:6443; several for several servers. Not needed once this
    /// machine has joined
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]")]
    server: Vec<String>,
    /// What `portolan token create` printed there: ID.SECRET.sha256:HEX. Not needed once this machine has joined. Everybody on
    /// this machine can read it in the list of processes; --token-file keeps it from them
    #[arg(long, conflicts_with = "token_file", value_name = "TOKEN")]
    token: Option<JoinToken>,
    /// File with the token, - for standard input; it may be gone once this machine has joined
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Hash of the cluster's authority, if the token does not carry it
    #[arg(long, value_name = "sha256:HEX")]
    ca_hash: Option<AuthorityHash>,
    /// Directory of everything that is kept: certificates, Pods
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    machine: MachineFlags,
}

/// Joins, or goes on as what has joined, until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    check_rights()?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let directory = membership::directory(&flags.data_dir);
        let board = Arc::new(Board::open(&flags.data_dir, &directory.join(KUBECONFIG))?);
        let membership = member(&flags, &directory).await?;
        let joined = Joined {
            directory,
            membership,
        };
        joined.run(&flags, board).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The kubeconfig of the agent, for `portolan status` and `portolan leave`.
const KUBECONFIG: &str = "agent.conf";

/// As what this machine belongs to the cluster: as before, or newly with a token.
async fn member(flags: &Flags, directory: &Path) -> Result<Membership, Failure> {
    let name = flags.machine.node.node_name();
    if let Some(known) = Membership::read(directory)? {
        let is_other_name = flags.machine.node.hostname_override.is_some() && known.node_name != name;
        if is_other_name {
            return Err(BadValue(format!(
                "this machine has joined as {:?}, not as {name:?}; `portolan leave --data-dir {}` first",
                known.node_name,
                flags.data_dir.display()
            ))
            .into());
        }
        let kept = Wanted::agent(&known.node_name).kept(directory);
        let reason = match kept {
            Some(kept) if !kept.is_over(Timestamp::now()) => match go_on(flags, directory, known).await? {
                Some(membership) => return Ok(membership),
                None => REMOVED,
            },
            Some(_) => ENDED,
            None => INCOMPLETE,
        };
        if !flags.has_token() {
            return Err(reason.into());
        }
    }
    let (Some(token), false) = (flags.token()?, flags.server.is_empty()) else {
        return Err(BadValue(NO_TOKEN.to_owned()).into());
    };
    let Some(hash) = token.hash.or(flags.ca_hash) else {
        return Err(BadValue(NO_HASH.to_owned()).into());
    };
    join(flags, directory, &name, &token, hash).await
}

impl Flags {
    /// Returns true if a token is given. A machine that has joined continues without its token file.
    fn has_token(&self) -> bool {
        let is_there = |file: &PathBuf| file.as_os_str() == STANDARD_INPUT || file.exists();
        self.token.is_some() || self.token_file.as_ref().is_some_and(is_there)
    }

    fn token(&self) -> Result<Option<JoinToken>, Failure> {
        let Some(file) = &self.token_file else {
            return Ok(self.token.clone());
        };
        let mut text = String::new();
        let read = match file.as_os_str() == STANDARD_INPUT {
            true => std::io::stdin().take(TOKEN_BYTES_MAX).read_to_string(&mut text),
            false => {
                fs::File::open(file).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text))
            }
        };
        read.map_err(|error| format!("--token-file {}: {error}", file.display()))?;
        let token = text.trim().parse::<JoinToken>();
        let token = token.map_err(|error| BadValue(format!("--token-file {}: {error}", file.display())))?;
        Ok(Some(token))
    }
}

/// Name of standard input for --token-file.
const STANDARD_INPUT: &str = "-";
/// Octets that are read from a token file at most. A token has about a hundred characters.
const TOKEN_BYTES_MAX: u64 = 4_096;
const REMOVED: &str = "the cluster does not accept the certificate of this machine any more: its Node was removed, or another \
                       machine has joined under its name.\nJoin again with --server and a --token of `portolan token create \
                       --print-join-command`";
const ENDED: &str = "the certificate of this machine has ended while it was off.\nJoin again with --server and a --token of \
                     `portolan token create --replace NODE --print-join-command`, where NODE is its name";
const INCOMPLETE: &str =
    "this machine has begun to join and has no certificate.\nJoin again with --server and a --token";
const NO_TOKEN: &str = "this machine has not joined yet: --server and --token or --token-file are needed, as `portolan token create \
                        --print-join-command` prints them at the server";
const NO_HASH: &str = "the token does not carry the hash of the cluster's authority, by which the server proves itself: \
                       give it by --ca-hash, as `portolan token create` prints it";

/// Goes on with what is there. What the cluster says by now counts, if it can be asked; `None` if it does not accept this
/// machine any more.
async fn go_on(
    flags: &Flags,
    directory: &Path,
    mut known: Membership,
) -> Result<Option<Membership>, Failure> {
    for server in &flags.server {
        if !known.servers.contains(server) {
            known.servers.push(server.clone());
        }
    }
    tracing::info!(
        node = known.node_name,
        "this machine has joined before and goes on"
    );
    let client = client(directory, &known, &Wanted::agent(&known.node_name))?;
    let is_refused = |error: &Failure| {
        let of_client = error.downcast_ref::<ClientError>();
        of_client.and_then(ClientError::code) == Some(401)
    };
    match ClusterInfo::read(&client).await {
        Ok(ClusterInfo {
            settings: Some(settings),
            ..
        }) => known.cluster = settings,
        Ok(_) => {}
        Err(error) if is_refused(&error) => return Ok(None),
        Err(error) => tracing::warn!(%error, "the servers do not answer; what they said before counts"),
    }
    known.write(directory)?;
    write_kubeconfig(directory, &known)?;
    Ok(Some(known))
}

/// Joins anew.
async fn join(
    flags: &Flags,
    directory: &Path,
    name: &str,
    token: &JoinToken,
    hash: AuthorityHash,
) -> Result<Membership, Failure> {
    crate::cli::say(&format!("Asking {} who it is …\n", flags.server.join(", ")));
    let info = trust::learn(&flags.server, hash).await?;
    let settings = info.settings.ok_or(
        "the cluster does not say which ranges and which DNS it has; it is joined if it was started by `portolan up`",
    )?;
    membership::write_authority(directory, &info.authority)?;
    let membership = Membership {
        node_name: name.to_owned(),
        servers: flags.server.clone(),
        cluster: settings,
    };
    let client = Client::new(Config {
        token: Some(token.token.to_string()),
        ..reached(directory, &membership)?
    })?;
    crate::cli::say(&format!("Asking for a certificate as Node {name} …\n"));
    Wanted::agent(name)
        .obtain(&client, directory, APPROVAL_PATIENCE)
        .await?;
    // Those of a machine that had joined before do not count any more.
    for part in NodePart::ALL {
        Wanted::part(part, name).forget(directory)?;
    }
    membership.write(directory)?;
    write_kubeconfig(directory, &membership)?;
    Ok(membership)
}

/// How the servers are reached, without saying who asks.
fn reached(directory: &Path, membership: &Membership) -> Result<Config, Failure> {
    let path = membership::authority_path(directory);
    let authority = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut servers = membership.servers.iter().cloned();
    Ok(Config {
        server: servers.next().unwrap_or_default(),
        further_servers: servers.collect(),
        certificate_authority: authority,
        ..Config::default()
    })
}

/// A machine that has joined.
struct Joined {
    directory: PathBuf,
    membership: Membership,
}

impl Joined {
    async fn run(self, flags: &Flags, board: Arc<Board>) -> Result<(), Failure> {
        let node_name = self.membership.node_name.clone();
        let mut machine_flags = flags.machine.clone();
        machine_flags.node.hostname_override = Some(node_name.clone());
        let machine = machine_flags.machine(&flags.data_dir, &self.membership.cluster)?;
        let serving = Wanted::serving(&node_name, machine.agent_endpoint.ip());
        let authority = fs::read_to_string(membership::authority_path(&self.directory))?;
        serving.forget_if_signed_by(&authority, &self.directory)?;
        let part = |part| Wanted::part(part, &node_name);
        let (proxy, dns) = (part(NodePart::Proxy), part(NodePart::Dns));
        let (announcer, edge) = (part(NodePart::Announcer), part(NodePart::Edge));
        let agent = Wanted::agent(&node_name);
        let client = self.client(&agent)?;
        for part in [&proxy, &dns, &announcer, &edge] {
            if part
                .kept(&self.directory)
                .is_none_or(|kept| kept.is_over(Timestamp::now()))
            {
                part.obtain(&client, &self.directory, APPROVAL_PATIENCE).await?;
            }
        }
        let clients = Clients {
            agent: client.clone(),
            proxy: self.client(&proxy)?,
            dns: self.client(&dns)?,
            announcer: self.client(&announcer)?,
            edge: self.client(&edge)?,
        };
        let path = serving.path(&self.directory);
        let endpoint = ServerSettings {
            listen: machine.agent_endpoint,
            certificate: Arc::new(CertificateFiles::new(path.clone(), path)),
            client_authority: authority.into_bytes(),
        };
        board.is_node(&node_name);
        let (end, ended) = watch::channel(false);
        let mut parts = JoinSet::new();
        let (directory, until_end) = (self.directory.clone(), ended.clone());
        let renewing = move || {
            let wanted = [&agent, &serving, &proxy, &dns, &announcer, &edge];
            let wanted = wanted.into_iter().cloned().collect();
            let renewal = renew(client.clone(), directory.clone(), wanted);
            let end = until(until_end.clone());
            async move {
                tokio::select! {
                    () = renewal => {}
                    () = end => {}
                }
                Ok::<(), Failure>(())
            }
        };
        parts.spawn(supervise(
            Arc::clone(&board),
            "certificates",
            ended.clone(),
            renewing,
        ));
        machine.start(&mut parts, &board, clients, endpoint, None, &ended);
        crate::cli::say(&format!(
            "This machine is Node {node_name} of the cluster. `portolan status --data-dir {}` says how its parts are.\n",
            flags.data_dir.display()
        ));
        crate::signal::asked_to_end().await;
        end.send_replace(true);
        while parts.join_next().await.is_some() {}
        Ok(())
    }

    fn client(&self, wanted: &Wanted) -> Result<Client, Failure> {
        client(&self.directory, &self.membership, wanted)
    }
}

/// A client that asks with a certificate, under the name of its component.
pub fn client(directory: &Path, membership: &Membership, wanted: &Wanted) -> Result<Client, Failure> {
    let path = wanted.path(directory);
    let config = Config {
        client_certificate_files: Some((path.clone(), path)),
        ..reached(directory, membership)?
    };
    Ok(Client::new(config)?.named(&format!("portolan-{}", wanted.file)))
}

/// Asks for each certificate that is missing, and anew for those of which most of the time is over, for as long as it
/// is polled.
async fn renew(client: Client, directory: PathBuf, wanted: Vec<Wanted>) {
    // Where in the span it falls, for this process and each certificate: another time on each machine.
    let chances: Vec<f64> = wanted.iter().map(|_| fastrand::f64()).collect();
    loop {
        let mut pause = RENEWAL_PERIOD;
        for (wanted, chance) in wanted.iter().zip(&chances) {
            let is_due = wanted
                .kept(&directory)
                .is_none_or(|kept| kept.renewal(*chance) <= Timestamp::now());
            if !is_due {
                continue;
            }
            match wanted.obtain(&client, &directory, APPROVAL_PATIENCE).await {
                Ok(()) => tracing::info!(certificate = wanted.file, "a new certificate"),
                Err(error) => {
                    tracing::warn!(certificate = wanted.file, %error, "no new certificate yet");
                    pause = RETRY_PERIOD;
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Writes the agent's kubeconfig, which names its certificate's file.
fn write_kubeconfig(directory: &Path, membership: &Membership) -> Result<(), Failure> {
    let server = membership.servers.first().map(String::as_str).unwrap_or_default();
    let agent = Wanted::agent(&membership.node_name).path(directory);
    let quoted = |path: &Path| serde_json::to_string(path);
    let authority = quoted(&membership::authority_path(directory))?;
    let (agent, server) = (quoted(&agent)?, serde_json::to_string(server)?);
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: portolan\n  cluster:\n    server: {server}\n    \
         certificate-authority: {authority}\ncontexts:\n- name: node\n  context:\n    cluster: portolan\n    user: node\n\
         current-context: node\nusers:\n- name: node\n  user:\n    client-certificate: {agent}\n    client-key: {agent}\n"
    );
    let path = directory.join(KUBECONFIG);
    ::trust::private_file::write(&path, text.as_bytes())
        .map_err(|error| format!("{}: {error}", path.display()).into())
}
