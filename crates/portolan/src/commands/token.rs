//! `portolan token`: bootstrap tokens, by which machines join; flags as `kubeadm token` has them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::bootstrap_token::{
    Description, GROUP, JOINING_GROUP, NAME_PREFIX, NAMESPACE, SECRET_TYPE, Stored, Token, is_extra_group,
    secret,
};
use api::certificates::Incarnation;
use api::object::{Endpoints, Node, Resource};
use api::table::human_duration;
use clap::{Args, Subcommand};
use client::{Client, Config, JSON};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use super::cluster::ClusterInfo;
use super::join::token::{AuthorityHash, JoinToken};
use super::{Failure, runtime};
use crate::flags::{BadValue, duration};

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a token and print it
    Create(CreateFlags),
    /// Print the tokens that there are, without what makes them secret
    List(ServerFlags),
    /// Make tokens worthless
    Revoke(RevokeFlags),
}

/// Where the cluster is.
#[derive(Debug, Args)]
pub struct ServerFlags {
    /// The administrator's kubeconfig; DIR/admin.conf if not given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The data directory of `portolan up`
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
}

/// Flags of `portolan token create`.
#[derive(Debug, Args)]
pub struct CreateFlags {
    /// The token, abcdef.0123456789abcdef; one that nobody can guess if not given
    token: Option<Token>,
    /// How long it is good; 0 for ever
    #[arg(long, default_value = "24h", value_name = "DURATION", value_parser = duration)]
    ttl: Duration,
    /// What it is for, for people
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    description: String,
    /// Groups of whoever has the token
    #[arg(long, value_delimiter = ',', default_value = JOINING_GROUP, value_name = "GROUP[,GROUP]")]
    groups: Vec<String>,
    /// Let one machine join with it under the name of this Node, which exists: the certificates of the machine that has the
    /// name now count no longer from then on
    #[arg(long, value_name = "NODE")]
    replace: Option<String>,
    /// Print the whole command by which a machine joins. It gives the token by standard input, so that nobody on that machine
    /// reads it in the list of processes
    #[arg(long)]
    print_join_command: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// Flags of `portolan token revoke`.
#[derive(Debug, Args)]
pub struct RevokeFlags {
    /// The tokens, or their IDs: what stands before the dot
    #[arg(required = true, value_name = "TOKEN|ID")]
    tokens: Vec<String>,
    #[command(flatten)]
    server: ServerFlags,
}

/// Makes, prints or revokes tokens.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    runtime(1)?.block_on(async {
        match command {
            Command::Create(flags) => create(flags).await,
            Command::List(flags) => list(flags).await,
            Command::Revoke(flags) => revoke(flags).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl ServerFlags {
    fn client(&self) -> Result<Client, Failure> {
        let path = self
            .kubeconfig
            .clone()
            .unwrap_or_else(|| self.data_dir.join("admin.conf"));
        let config = Config::from_kubeconfig(&path).map_err(|error| {
            format!("{error}; tokens are made where `portolan up` runs, or with --kubeconfig")
        })?;
        Ok(Client::new(config)?)
    }
}

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets")
}

async fn create(flags: &CreateFlags) -> Result<(), Failure> {
    if let Some(group) = flags.groups.iter().find(|group| !is_extra_group(group)) {
        let message = format!("--groups {group:?}: expected {GROUP}: and small letters, digits, ':' and '-'");
        return Err(BadValue(message).into());
    }
    let client = flags.server.client()?;
    let token = match &flags.token {
        Some(token) => token.clone(),
        None => generate()?,
    };
    let lives = SignedDuration::try_from(flags.ttl).unwrap_or(SignedDuration::MAX);
    let description = Description {
        text: flags.description.clone(),
        expiration: match flags.ttl.is_zero() {
            true => None,
            false => {
                let end = Timestamp::now().checked_add(lives);
                let end = end.map_err(|_| BadValue("--ttl is too long; 0 is for ever".to_owned()))?;
                Some(end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
            }
        },
        groups: flags.groups.clone(),
        replaces: match &flags.replace {
            Some(name) => Some((name.clone(), incarnation(&client, name).await?)),
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
            return Err(format!(
                "there is a token {} already; revoke it, or choose another",
                token.id
            )
            .into());
        }
        other => other?,
    };
    let info = ClusterInfo::read(&client).await.map_err(|error| {
        format!(
            "the token {} is made, but the cluster does not say how it is joined: {error}",
            token.id
        )
    })?;
    let text = JoinToken {
        token,
        hash: AuthorityHash::of(&info.authority),
    };
    crate::cli::say(&match flags.print_join_command {
        true => join_command(&servers(&client, &info).await, &text),
        false => format!("{text}\n"),
    });
    Ok(())
}

/// The command by which a machine joins, for a POSIX shell. Its `echo` is no process of its own.
fn join_command(servers: &[String], token: &JoinToken) -> String {
    let servers = servers.join(",");
    format!("echo {token} | portolan join --server {servers} --token-file -\n")
}

/// The incarnation of a Node, so that the token replaces its machine once.
async fn incarnation(client: &Client, name: &str) -> Result<Incarnation, Failure> {
    let node: Node = match client.get(&format!("{}/{name}", Node::collection(None))).await {
        Err(error) if error.is_not_found() => {
            let message =
                format!("--replace {name}: there is no such Node; a machine joins under the name without it");
            return Err(BadValue(message).into());
        }
        other => other?,
    };
    Ok(Incarnation::of_node(&node))
}

/// All servers of the cluster: the one that says so, and the others by the endpoints of the `kubernetes` Service.
async fn servers(client: &Client, info: &ClusterInfo) -> Vec<String> {
    let mut servers = vec![info.server.clone()];
    let path = format!("{}/kubernetes", Endpoints::collection(Some("default")));
    let endpoints: Endpoints = match client.get(&path).await {
        Ok(endpoints) => endpoints,
        Err(error) => {
            tracing::warn!(%error, "other servers are not known");
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

/// A token out of the kernel's random numbers.
fn generate() -> Result<Token, Failure> {
    let random = SystemRandom::new();
    let mut has_failed = false;
    let token = Token::generate(|below| {
        // Numbers beyond the last whole multiple would make the first letters likelier.
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
    match has_failed {
        true => Err("the kernel gives no random numbers".into()),
        false => Ok(token),
    }
}

async fn list(flags: &ServerFlags) -> Result<(), Failure> {
    let client = flags.client()?;
    let path = format!(
        "{}?fieldSelector=type%3D{}",
        collection(),
        SECRET_TYPE.replace('/', "%2F")
    );
    let answer: Value = client.get(&path).await?;
    let now = Timestamp::now();
    let mut text = format!("{:<8} {:<9} {:<21} {}\n", "ID", "TTL", "EXPIRES", "DESCRIPTION");
    for secret in answer["items"].as_array().into_iter().flatten() {
        // Items of a list do not say their type of object, but that of Secret they do.
        if let Some(token) = Stored::of(secret) {
            text.push_str(&line(&token, now));
        }
    }
    crate::cli::say(&text);
    Ok(())
}

fn line(token: &Stored<'_>, now: Timestamp) -> String {
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

async fn revoke(flags: &RevokeFlags) -> Result<(), Failure> {
    let client = flags.server.client()?;
    for text in &flags.tokens {
        let id = text.split('.').next().unwrap_or_default();
        let path = format!("{}/{NAME_PREFIX}{id}", collection());
        match client.request(Method::DELETE, &path, JSON, None).await {
            Ok(_) => crate::cli::say(&format!("token {id} revoked\n")),
            Err(error) if error.is_not_found() => {
                return Err(format!("there is no token {id}; see `portolan token list`").into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
