//! The cluster's certificate authority and what it signs: the serving certificate and the administrator's client
//! certificate; and the authority of nodes' agents as servers, which the API server alone trusts, and only when it asks an
//! agent. All of it lives in one directory, is used again at the next start and renewed in time.

mod issue;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::certificates::NodeIdentity;
use rcgen::{Issuer, KeyPair};
use trust::private_file;

use issue::Purpose;

/// A certificate that ends within this time is renewed at the start.
const RENEW_BEFORE_DAYS: i64 = 30;
/// A certificate of a node's machine is given out again for this long: without a Node it counts for an hour only.
const NODE_REUSE_SECONDS: i64 = 600;
/// The files of the cluster's authority, and of the one of nodes' agents as servers.
const AUTHORITY: &str = "ca";
const KUBELET_SERVING_AUTHORITY: &str = "kubelet-serving-ca";

/// Why certificates cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written; retrying helps when that is mended.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no usable certificate or key. Removing both the `.crt` and the `.key` has them made anew.
    #[error("{} cannot be used: {reason}; remove it and its .crt or .key to have them made anew", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate {what}: {source}")]
    Issue {
        /// Name of the object.
        what: &'static str,
        /// Why.
        source: rcgen::Error,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key, PKCS 8.
    pub key: String,
}

/// All certificates of a server.
#[derive(Clone)]
pub struct Pki {
    /// The authority's certificate, PEM: clients trust it, and the server trusts the clients that it signed.
    pub authority: String,
    /// The certificate of the authority of nodes' agents as servers, PEM. The server trusts it when it asks an agent; no
    /// client of the API trusts it.
    pub kubelet_serving_authority: String,
    /// For the server.
    pub serving: Pair,
    /// For the administrator: user `kubernetes-admin`, group `system:masters`.
    pub admin: Pair,
}

/// A client, or a node's agent as a server, that an authority answers for.
#[derive(Clone)]
pub struct Client {
    /// The certificate of the cluster's authority, PEM, which the other side's is checked by.
    pub authority: String,
    /// Its own.
    pub pair: Pair,
}

/// The certificate of a client: `user`, a member of `group` if that is not "". It is kept in `directory`, the one of the
/// authority, as `NAME.crt` and `NAME.key`, and made anew when it is about to end or is somebody else's. One of a node's
/// machine is made anew after ten minutes and says that it was given out by hand.
///
/// # Errors
/// See [`PkiError`]; one is that there is no authority, since no server has been started with the directory.
pub fn client(directory: &Path, name: &str, user: &str, group: &str) -> Result<Client, PkiError> {
    let files = Files { directory };
    let authority = files.authority()?;
    let now_seconds = jiff::Timestamp::now().as_second();
    let good_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
    let issuer = files.issuer(AUTHORITY, &authority)?;
    let is_of_node = NodeIdentity::of(user, &[group]).is_some();
    let pair = match files.read(name)? {
        Some(pair)
            if issue::ends_after(&pair.certificate, good_until)
                && issue::is_of(&pair.certificate, user, group)
                && issue::is_signed_by(&pair.certificate, &authority.certificate)
                && (!is_of_node
                    || issue::is_by_hand_since(&pair.certificate, now_seconds - NODE_REUSE_SECONDS)) =>
        {
            pair
        }
        _ => {
            let purpose = match is_of_node {
                true => Purpose::OfNode { user, group },
                false => Purpose::Client { user, group },
            };
            files.write(name, issue::signed(&issuer, purpose, now_seconds)?)?
        }
    };
    Ok(Client {
        authority: authority.certificate,
        pair,
    })
}

/// The serving certificate of a node's agent, by which the API server knows it: good for the node's name and addresses, and
/// signed by the authority of agents alone, so that no client of the API takes the agent for the API server. It is kept in
/// `directory`, the one of the authorities, as `serving-NODE.crt` and `serving-NODE.key`, and made anew when it is about to
/// end, not good for all of them, or signed by the cluster's authority, as by earlier versions.
///
/// # Errors
/// See [`PkiError`]; one is that there is no authority, since no server has been started with the directory.
pub fn node_serving(directory: &Path, node_name: &str, addresses: &[IpAddr]) -> Result<Client, PkiError> {
    let files = Files { directory };
    let authority = files.authority()?;
    let serving_authority = files.ensure_kubelet_serving_authority(&authority)?;
    let mut names = vec![node_name.to_owned()];
    names.extend(addresses.iter().map(IpAddr::to_string));
    let name = format!("serving-{node_name}");
    let now_seconds = jiff::Timestamp::now().as_second();
    let good_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
    let pair = match files.read(&name)? {
        Some(pair)
            if issue::ends_after(&pair.certificate, good_until)
                && issue::names_all(&pair.certificate, &names)
                && issue::is_signed_by(&pair.certificate, &serving_authority.certificate) =>
        {
            pair
        }
        _ => {
            let purpose = Purpose::Serving {
                common_name: &format!("system:node:{node_name}"),
                names: &names,
            };
            let issuer = files.issuer(KUBELET_SERVING_AUTHORITY, &serving_authority)?;
            files.write(&name, issue::signed(&issuer, purpose, now_seconds)?)?
        }
    };
    Ok(Client {
        authority: authority.certificate,
        pair,
    })
}

/// Returns true if an authority signed the first certificate of a PEM text, according to the key identifiers.
pub fn is_signed_by(certificate: &str, authority: &str) -> bool {
    issue::is_signed_by(certificate, authority)
}

/// Names and addresses that a serving certificate is good for: how clients on this machine, in the cluster and
/// outside call the server.
pub fn serving_names(node_name: &str, cluster_domain: &str, addresses: &[IpAddr]) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push(format!("kubernetes.default.svc.{cluster_domain}"));
    names.push(node_name.to_owned());
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    names.extend(
        addresses
            .iter()
            .filter(|address| !address.is_unspecified())
            .map(IpAddr::to_string),
    );
    names.sort();
    names.dedup();
    names
}

impl Pki {
    /// Reads what is in `directory` and makes what is missing, about to end, or not good for all of
    /// `serving_names`.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open(directory: &Path, serving_names: &[String]) -> Result<Pki, PkiError> {
        private_file::create_directory(directory).map_err(|source| PkiError::File {
            path: directory.to_owned(),
            source,
        })?;
        let files = Files { directory };
        let now_seconds = jiff::Timestamp::now().as_second();
        let good_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        let (authority, is_new) = files.ensure_authority()?;
        let kubelet_serving_authority = files.ensure_kubelet_serving_authority(&authority)?;
        let issuer = files.issuer(AUTHORITY, &authority)?;
        let keep = |pair: &Pair| !is_new && issue::ends_after(&pair.certificate, good_until);
        let serving = match files.read("apiserver")? {
            Some(pair) if keep(&pair) && issue::names_all(&pair.certificate, serving_names) => pair,
            _ => {
                let purpose = Purpose::Serving {
                    common_name: "kube-apiserver",
                    names: serving_names,
                };
                files.write("apiserver", issue::signed(&issuer, purpose, now_seconds)?)?
            }
        };
        let admin = match files.read("admin")? {
            Some(pair) if keep(&pair) => pair,
            _ => {
                let purpose = Purpose::Client {
                    user: "kubernetes-admin",
                    group: "system:masters",
                };
                files.write("admin", issue::signed(&issuer, purpose, now_seconds)?)?
            }
        };
        Ok(Pki {
            authority: authority.certificate,
            kubelet_serving_authority: kubelet_serving_authority.certificate,
            serving,
            admin,
        })
    }
}

/// The directory with the pairs, `NAME.crt` and `NAME.key`.
struct Files<'d> {
    directory: &'d Path,
}

impl Files<'_> {
    fn authority(&self) -> Result<Pair, PkiError> {
        self.read(AUTHORITY)?.ok_or_else(|| PkiError::Unusable {
            path: self.path(AUTHORITY, "crt"),
            reason: "there is no authority yet; start the API server first".to_owned(),
        })
    }

    /// The cluster's authority, made where it is missing or about to end; whether it is new.
    fn ensure_authority(&self) -> Result<(Pair, bool), PkiError> {
        let now_seconds = jiff::Timestamp::now().as_second();
        let good_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        match self.read(AUTHORITY)? {
            Some(pair) if issue::ends_after(&pair.certificate, good_until) => Ok((pair, false)),
            _ => {
                let pair = issue::authority("portolan-ca", issue::new_key()?, now_seconds)?;
                Ok((self.write(AUTHORITY, pair)?, true))
            }
        }
    }

    /// The authority of agents as servers, made where it is missing or about to end. Its key follows from that of the
    /// cluster's authority, so that servers which share that one trust the same agents.
    fn ensure_kubelet_serving_authority(&self, authority: &Pair) -> Result<Pair, PkiError> {
        let now_seconds = jiff::Timestamp::now().as_second();
        let good_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        match self.read(KUBELET_SERVING_AUTHORITY)? {
            Some(pair) if issue::ends_after(&pair.certificate, good_until) => Ok(pair),
            _ => {
                let key = issue::derived_key(authority, b"portolan kubelet-serving authority")?;
                let pair = issue::authority("portolan-kubelet-serving-ca", key, now_seconds)?;
                self.write(KUBELET_SERVING_AUTHORITY, pair)
            }
        }
    }

    fn read(&self, name: &str) -> Result<Option<Pair>, PkiError> {
        let read = |path: PathBuf| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PkiError::File { path, source }),
        };
        let certificate = read(self.path(name, "crt"))?;
        let key = read(self.path(name, "key"))?;
        let Some((certificate, key)) = certificate.zip(key) else {
            return Ok(None);
        };
        let fits = KeyPair::from_pem(&key).is_ok_and(|key| issue::is_for_key(&certificate, &key));
        if matches!(name, AUTHORITY | KUBELET_SERVING_AUTHORITY) && !fits {
            // Everybody who trusts this authority would be cut off by a new one: a person has to decide.
            let reason = "certificate and key do not belong together".to_owned();
            return Err(PkiError::Unusable {
                path: self.path(name, "crt"),
                reason,
            });
        }
        Ok(fits.then_some(Pair { certificate, key }))
    }

    /// The key first: a crash between the two leaves a pair that does not fit, which is made anew.
    fn write(&self, name: &str, pair: Pair) -> Result<Pair, PkiError> {
        for (extension, contents) in [("key", &pair.key), ("crt", &pair.certificate)] {
            let path = self.path(name, extension);
            private_file::write(&path, contents.as_bytes())
                .map_err(|source| PkiError::File { path, source })?;
        }
        Ok(pair)
    }

    fn issuer(&self, name: &str, authority: &Pair) -> Result<Issuer<'static, KeyPair>, PkiError> {
        KeyPair::from_pem(&authority.key)
            .and_then(|key| Issuer::from_ca_cert_pem(&authority.certificate, key))
            .map_err(|error| PkiError::Unusable {
                path: self.path(name, "crt"),
                reason: error.to_string(),
            })
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}.{extension}"))
    }
}

#[cfg(test)]
mod tests;
