//! Discovery of a cluster by a joining node: the server's CA must have the hash of the join token.
//!
//! The first request is unauthenticated in both directions and obtains the CA certificate. The second request verifies
//! the server with it. No secret is sent before.

use std::error::Error;
use std::io;

use client::{Client, ClientError, Config};
use rustls::CertificateError;

use super::cluster_info::{ClusterInfo, ClusterInfoError};
use super::join_token::AuthorityHash;

/// Failed discovery of a cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// No server responds.
    #[error("{0}\nIs `portolan up` running there, and is its port reachable from this host?")]
    Unreachable(ClientError),
    /// The server does not publish `cluster-info`.
    #[error(
        "{server} does not publish its cluster ({reason}).\nStart it with `portolan up`, and with --anonymous-auth=true"
    )]
    NotPublished {
        /// URL of the server.
        server: String,
        /// Response of the server.
        reason: String,
    },
    /// The server belongs to another cluster, or an attacker intercepts the connection.
    #[error(
        "{server} is not the server that the token is for: its CA is {found}, expected {expected}.\nCheck the address, and \
         get a new command from `portolan token create --print-join-command` there"
    )]
    OtherAuthority {
        /// URL of the server.
        server: String,
        /// Hash of its CA.
        found: String,
        /// Hash in the token.
        expected: AuthorityHash,
    },
    /// The server's certificate is not valid at the time of this host.
    #[error(
        "the certificate of {server} is not valid at the time of this host ({now}).\nSynchronize the clocks of both hosts, \
         for example with NTP, and try again"
    )]
    Clock {
        /// URL of the server.
        server: String,
        /// Time of this host.
        now: String,
    },
    /// The CA did not sign the server's certificate.
    #[error("{server} not verified: {source}")]
    Unverified {
        /// URL of the server.
        server: String,
        /// Failed request.
        source: Box<ClientError>,
    },
    /// A URL is invalid.
    #[error(transparent)]
    Config(#[from] client::ConfigError),
}

/// Reads and verifies `cluster-info` of the first server that responds.
///
/// # Errors
///
/// [`DiscoveryError`] if no server responds or the CA does not have the expected hash.
pub(crate) async fn discover(
    servers: &[String],
    expected: AuthorityHash,
) -> Result<ClusterInfo, DiscoveryError> {
    let insecure = Config {
        insecure_skip_tls_verify: true,
        ..Config::default()
    };
    let first = read_from_any(servers, insecure).await?;
    let (server, info) = first.map_err(|(server, error)| unreachable_error(server, error))?;
    check_hash(&server, &info, expected)?;
    // Until here only the CA certificate with this hash is trusted. The rest may be forged and is read again. That
    // includes further certificates: trusted, they would let whoever added them answer the second request, and
    // receive the token.
    let verified = Config {
        certificate_authority: expected.pinned(&info.authority).into_bytes(),
        ..Config::default()
    };
    let second = read_from_any(servers, verified).await?;
    let (server, info) = second.map_err(|(server, error)| unverified_error(server, error))?;
    check_hash(&server, &info, expected)?;
    Ok(info)
}

fn check_hash(server: &str, info: &ClusterInfo, expected: AuthorityHash) -> Result<(), DiscoveryError> {
    match AuthorityHash::of(&info.authority) {
        Some(found) if found == expected => Ok(()),
        found => Err(DiscoveryError::OtherAuthority {
            server: server.to_owned(),
            found: found.map_or_else(|| "no certificate".to_owned(), |hash| hash.to_string()),
            expected,
        }),
    }
}

/// Server and its information, or the last server and its error.
type ClusterInfoResult = Result<(String, ClusterInfo), (String, ClusterInfoError)>;

/// Reads `cluster-info` from the servers in turn until one responds.
async fn read_from_any(servers: &[String], config: Config) -> Result<ClusterInfoResult, DiscoveryError> {
    let mut last = (
        String::new(),
        ClusterInfoError::Invalid("no server is given".to_owned()),
    );
    for server in servers {
        let client = Client::new(Config {
            server: server.clone(),
            ..config.clone()
        })?;
        match ClusterInfo::read(&client).await {
            Ok(info) => return Ok(Ok((server.clone(), info))),
            Err(error) => last = (server.clone(), error),
        }
    }
    Ok(Err(last))
}

fn unreachable_error(server: String, error: ClusterInfoError) -> DiscoveryError {
    match error {
        ClusterInfoError::Client(error) if error.code().is_none() => DiscoveryError::Unreachable(error),
        error => DiscoveryError::NotPublished {
            server,
            reason: error.to_string(),
        },
    }
}

fn unverified_error(server: String, error: ClusterInfoError) -> DiscoveryError {
    match error {
        ClusterInfoError::Client(source) if is_outside_validity(&source) => DiscoveryError::Clock {
            server,
            now: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
        ClusterInfoError::Client(source) => DiscoveryError::Unverified {
            server,
            source: Box::new(source),
        },
        error => DiscoveryError::NotPublished {
            server,
            reason: error.to_string(),
        },
    }
}

/// Returns true if a certificate was rejected because it is expired or not valid yet.
fn is_outside_validity(error: &ClientError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // `io::Error::source` skips the error that it wraps.
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        let tls_error = wrapped
            .and_then(|error| error.downcast_ref::<rustls::Error>())
            .or_else(|| error.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::InvalidCertificate(reason)) = tls_error {
            return matches!(
                reason,
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
