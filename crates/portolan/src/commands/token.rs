//! `portolan token`: tokens with which nodes join, and flags as those of `kubeadm token`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::bootstrap_token::{
    Description, GROUP, JOINING_GROUP, NAME_PREFIX, NAMESPACE, SECRET_TYPE, StoredToken, Token,
    is_extra_group, secret,
};
use api::certificates::Incarnation;
use api::object::{Endpoints, Node, Resource};
use api::table::human_duration;
use clap::{Args, Subcommand};
use client::{Client, Config, ConfigError, JSON};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use crate::cluster::cluster_info::{ClusterInfo, ClusterInfoError};
use crate::cluster::join_token::{AuthorityHash, JoinToken};
use crate::error::{CommandError, UsageError};
use crate::flags::values::{DATA_DIRECTORY, duration};
use crate::{output, runtime};

/// Subcommands of `portolan token`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a token and print it
    Create(CreateFlags),
    /// List tokens, without their secrets
    List(ServerFlags),
    /// Revoke tokens
    #[command(alias = "delete")]
    Revoke(RevokeFlags),
}

/// API server of the cluster.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Administrator's kubeconfig [default: DIR/admin.conf]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Data directory of `portolan up`
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Flags of `portolan token create`.
#[derive(Debug, Args)]
pub(crate) struct CreateFlags {
    /// Token of the form abcdef.0123456789abcdef [default: a random token]
    token: Option<Token>,
    /// Time to live; 0 never expires
    #[arg(long, default_value = "24h", value_name = "DURATION", value_parser = duration)]
    ttl: Duration,
    /// Human-readable description
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    description: String,
    /// Groups of the token's user
    #[arg(long, value_delimiter = ',', default_value = JOINING_GROUP, value_name = "GROUP[,GROUP]")]
    groups: Vec<String>,
    /// Let one host take over the name of this Node; the certificates of the current node then become invalid
    #[arg(long, value_name = "NODE")]
    replace: Option<String>,
    /// Print the command with which a host joins; it passes the token on standard input, not in the process list
    #[arg(long)]
    print_join_command: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// Flags of `portolan token revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeFlags {
    /// Tokens, or their IDs (the part before the dot)
    #[arg(required = true, value_name = "TOKEN|ID")]
    tokens: Vec<String>,
    #[command(flatten)]
    server: ServerFlags,
}

/// Reason why a token cannot be created, listed or revoked.
#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error("{0}; run this command where `portolan up` runs, or with --kubeconfig")]
    NoKubeconfig(#[source] ConfigError),
    #[error("token {0} exists; revoke it, or choose another one")]
    Exists(String),
    #[error("token {id} created, but the cluster does not publish how hosts join: {source}")]
    NotPublished { id: String, source: ClusterInfoError },
    #[error("no token {0}; see `portolan token list`")]
    NotFound(String),
}

/// Failure of the kernel's random number generator.
#[derive(Debug, thiserror::Error)]
#[error("the kernel returned no random numbers")]
struct NoRandomNumbers;

/// Creates, lists or revokes tokens.
///
/// # Errors
///
/// An error if a flag is invalid or a request fails.
pub(crate) fn run(command: &Command) -> Result<ExitCode, CommandError> {
    runtime::multi_thread(1)?.block_on(async {
        match command {
            Command::Create(flags) => create(flags).await,
            Command::List(flags) => list(flags).await,
            Command::Revoke(flags) => revoke(flags).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl ServerFlags {
    fn client(&self) -> Result<Client, CommandError> {
        let path = self
            .kubeconfig
            .clone()
            .unwrap_or_else(|| self.data_dir.join("admin.conf"));
        let config = Config::from_kubeconfig(&path).map_err(TokenError::NoKubeconfig)?;
        Ok(Client::new(config)?)
    }
}

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets")
}

/// Creates a token and prints it.
async fn create(flags: &CreateFlags) -> Result<(), CommandError> {
    if let Some(group) = flags.groups.iter().find(|group| !is_extra_group(group)) {
        let message =
            format!("--groups {group:?}: expected {GROUP}: and lower-case letters, digits, ':' and '-'");
        return Err(UsageError(message).into());
    }
    let client = flags.server.client()?;
    let token = match &flags.token {
        Some(token) => token.clone(),
        None => generate()?,
    };
    let description = Description {
        text: flags.description.clone(),
        expiration: expiration(flags.ttl)?,
        groups: flags.groups.clone(),
        replaces: match &flags.replace {
            Some(name) => Some((name.clone(), node_identity(&client, name).await?)),
            None => None,
        },
    };
    let created = client
        .request(
            Method::POST,
            &collection(),
            JSON,
            Some(&secret(&token, &description)),
        )
        .await;
    match created {
        Err(error) if error.is_conflict() => {
            return Err(TokenError::Exists(token.id).into());
        }
        other => other?,
    };
    let info = match ClusterInfo::read(&client).await {
        Ok(info) => info,
        Err(source) => return Err(TokenError::NotPublished { id: token.id, source }.into()),
    };
    let join_token = JoinToken {
        token,
        hash: AuthorityHash::of(&info.authority),
    };
    output::print(&if flags.print_join_command {
        join_command(&servers(&client, &info).await, &join_token)
    } else {
        format!("{join_token}\n")
    });
    Ok(())
}

/// Returns the expiration time of a new token in RFC 3339, or `None` if it never expires.
fn expiration(ttl: Duration) -> Result<Option<String>, UsageError> {
    if ttl.is_zero() {
        return Ok(None);
    }
    let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
    let end = Timestamp::now().checked_add(ttl);
    let end = end.map_err(|_| UsageError::new("--ttl is too long; 0 never expires"))?;
    Ok(Some(end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// Returns the command with which a host joins, for a POSIX shell. `echo` is a builtin, so it is not in the process
/// list.
fn join_command(servers: &[String], token: &JoinToken) -> String {
    let servers = servers.join(",");
    format!("echo {token} | portolan join --server {servers} --token-file -\n")
}

/// Returns the identity of a Node, so that the token replaces this Node only once.
async fn node_identity(client: &Client, name: &str) -> Result<Incarnation, CommandError> {
    let node: Node = match client.get(&format!("{}/{name}", Node::collection(None))).await {
        Err(error) if error.is_not_found() => {
            return Err(UsageError(format!(
                "--replace {name}: no such Node; hosts join with this name without the flag"
            ))
            .into());
        }
        other => other?,
    };
    Ok(Incarnation::of_node(&node))
}

/// Returns the URLs of all API servers: that of `cluster-info`, and the endpoints of Service `kubernetes`.
async fn servers(client: &Client, info: &ClusterInfo) -> Vec<String> {
    let mut servers = vec![info.server.clone()];
    let path = format!("{}/kubernetes", Endpoints::collection(Some("default")));
    let endpoints: Endpoints = match client.get(&path).await {
        Ok(endpoints) => endpoints,
        Err(error) => {
            tracing::warn!(%error, "endpoints of Service kubernetes not read");
            return servers;
        }
    };
    for subset in &endpoints.subsets {
        let port = subset.ports.first().map_or(443, |port| port.port);
        for address in &subset.addresses {
            let host = if address.ip.contains(':') {
                format!("[{}]", address.ip)
            } else {
                address.ip.to_string()
            };
            let server = format!("https://{host}:{port}");
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    servers
}

/// Generates a random token.
fn generate() -> Result<Token, NoRandomNumbers> {
    let random = SystemRandom::new();
    let mut has_failed = false;
    let token = Token::generate(|below| {
        // Bytes above the last multiple of `below` are skipped, so that all letters are equally likely.
        let limit = 256 - 256 % below;
        loop {
            let mut byte = [0; 1];
            if random.fill(&mut byte).is_err() {
                has_failed = true;
                return 0;
            }
            let number = usize::from(byte[0]);
            if number < limit {
                return number % below;
            }
        }
    });
    if has_failed {
        Err(NoRandomNumbers)
    } else {
        Ok(token)
    }
}

async fn list(flags: &ServerFlags) -> Result<(), CommandError> {
    let client = flags.client()?;
    let path = format!(
        "{}?fieldSelector=type%3D{}",
        collection(),
        SECRET_TYPE.replace('/', "%2F")
    );
    let response: Value = client.get(&path).await?;
    let now = Timestamp::now();
    let mut text = format!("{:<8} {:<9} {:<21} {}\n", "ID", "TTL", "EXPIRES", "DESCRIPTION");
    for secret in response["items"].as_array().into_iter().flatten() {
        // Items of a list have no kind, but they have the type of the Secret.
        if let Some(token) = StoredToken::of(secret) {
            text.push_str(&token_line(&token, now));
        }
    }
    output::print(&text);
    Ok(())
}

fn token_line(token: &StoredToken<'_>, now: Timestamp) -> String {
    let (left, end) = match token.seconds_left(now) {
        _ if token.is_expired(now) => ("expired".to_owned(), token.get("expiration")),
        Some(seconds) => (
            human_duration(SignedDuration::from_secs(seconds)),
            token.get("expiration"),
        ),
        None => ("forever".to_owned(), "never".to_owned()),
    };
    let line = format!(
        "{:<8} {left:<9} {end:<21} {}",
        token.get("token-id"),
        token.get("description")
    );
    format!("{}\n", line.trim_end())
}

async fn revoke(flags: &RevokeFlags) -> Result<(), CommandError> {
    let client = flags.server.client()?;
    for text in &flags.tokens {
        let id = text.split('.').next().unwrap_or_default();
        let path = format!("{}/{NAME_PREFIX}{id}", collection());
        match client.request(Method::DELETE, &path, JSON, None).await {
            Ok(_) => output::print(&format!("token {id} revoked\n")),
            Err(error) if error.is_not_found() => {
                return Err(TokenError::NotFound(id.to_owned()).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
