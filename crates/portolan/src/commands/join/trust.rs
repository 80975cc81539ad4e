//! Learning whom to trust: the authority that a server names, if its hash is the one that the token carries. Nothing
//! secret is sent before.

use client::{Client, ClientError, Config};
use rustls::CertificateError;

use super::super::cluster::{ClusterInfo, PATH};
use super::token::AuthorityHash;

/// Why a server is not trusted, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// None of the servers answers.
    #[error(
        "{0}\nIs `portolan up` running there, and does nothing on the way keep this machine from the port?"
    )]
    NoAnswer(ClientError),
    /// It is no server that machines join, or nobody may ask it.
    #[error(
        "{server} does not say what cluster it is ({reason}).\nStart it by `portolan up`, with --anonymous-auth=true"
    )]
    NoInfo {
        /// Address of the server.
        server: String,
        /// What it said.
        reason: String,
    },
    /// It is another cluster, or somebody in between.
    #[error(
        "{server} is not the server that the token is for: its authority is {found}, expected {expected}.\nAsk again for \
         `portolan token create --print-join-command` there, and look whether the address is right"
    )]
    OtherAuthority {
        /// Address of the server.
        server: String,
        /// What it names.
        found: String,
        /// What was expected.
        expected: AuthorityHash,
    },
    /// The times differ too much.
    #[error(
        "the certificate of {server} is not good at this time, going by the clock of this machine ({now}).\nSet the clocks \
         of both machines right, best by NTP, and try again"
    )]
    Clock {
        /// Address of the server.
        server: String,
        /// The time here.
        now: String,
    },
    /// The server has not proved to be the one that the authority answers for.
    #[error("{server} does not prove who it is: {source}")]
    Unproven {
        /// Address of the server.
        server: String,
        /// What is wrong.
        source: ClientError,
    },
    /// A client cannot be made.
    #[error(transparent)]
    Config(#[from] client::ConfigError),
}

/// What a cluster says of itself, once it is proved that the servers are its own.
pub async fn learn(servers: &[String], expected: AuthorityHash) -> Result<ClusterInfo, TrustError> {
    let said = ask(
        servers,
        Config {
            insecure_skip_tls_verify: true,
            ..Config::default()
        },
    )
    .await?;
    let (server, info) = said.map_err(|(server, error)| no_answer(server, error))?;
    let found = AuthorityHash::of(&info.authority);
    if found != Some(expected) {
        return Err(TrustError::OtherAuthority {
            server,
            found: found.map_or_else(|| "no certificate".to_owned(), |hash| hash.to_string()),
            expected,
        });
    }
    // What was said before may be anybody's but for the authority; now it is the server's own word.
    let proved = ask(
        servers,
        Config {
            certificate_authority: info.authority.into_bytes(),
            ..Config::default()
        },
    )
    .await?;
    let (_, info) = proved.map_err(|(server, error)| unproven(server, error))?;
    match AuthorityHash::of(&info.authority) {
        Some(found) if found == expected => Ok(info),
        found => Err(TrustError::OtherAuthority {
            server,
            found: found.map_or_else(|| "no certificate".to_owned(), |hash| hash.to_string()),
            expected,
        }),
    }
}

type Said = Result<(String, ClusterInfo), (String, Failed)>;

enum Failed {
    Client(ClientError),
    Content(String),
}

/// Asks the servers in turn; the failure is that of the last one.
async fn ask(servers: &[String], config: Config) -> Result<Said, TrustError> {
    let mut last = None;
    for server in servers {
        let client = Client::new(Config {
            server: server.clone(),
            ..config.clone()
        })?;
        let failed = match client.get::<serde_json::Value>(PATH).await {
            Err(error) => Failed::Client(error),
            Ok(_) => match ClusterInfo::read(&client).await {
                Ok(info) => return Ok(Ok((server.clone(), info))),
                Err(error) => Failed::Content(error.to_string()),
            },
        };
        last = Some((server.clone(), failed));
    }
    let none = || (String::new(), Failed::Content("no server is named".to_owned()));
    Ok(Err(last.unwrap_or_else(none)))
}

fn no_answer(server: String, failed: Failed) -> TrustError {
    match failed {
        Failed::Client(error) if error.code().is_none() => TrustError::NoAnswer(error),
        Failed::Client(error) => TrustError::NoInfo {
            server,
            reason: error.to_string(),
        },
        Failed::Content(reason) => TrustError::NoInfo { server, reason },
    }
}

fn unproven(server: String, failed: Failed) -> TrustError {
    match failed {
        Failed::Client(source) if is_about_time(&source) => TrustError::Clock {
            server,
            now: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
        Failed::Client(source) => TrustError::Unproven { server, source },
        Failed::Content(reason) => TrustError::NoInfo { server, reason },
    }
}

/// Whether a certificate is refused for the time, and nothing else.
fn is_about_time(error: &ClientError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // An I/O error hides what it is made of from `source`.
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(|error| error.get_ref());
        let found = inner
            .and_then(|error| error.downcast_ref::<rustls::Error>())
            .or_else(|| error.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::InvalidCertificate(fault)) = found {
            return matches!(
                fault,
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            );
        }
        cause = error.source();
    }
    false
}
