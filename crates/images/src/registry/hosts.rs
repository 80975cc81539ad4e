//! Hosts of a registry: the registry itself and its mirrors, from `hosts.toml` in containerd's layout.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::reference::{DEFAULT_REGISTRY, Reference};

/// Host that serves the default registry.
const DEFAULT_REGISTRY_HOST: &str = "registry-1.docker.io";
/// Directory for registries that have none.
const DEFAULT_DIRECTORY: &str = "_default";
const FILE: &str = "hosts.toml";
/// Maximum number of bytes of a `hosts.toml` or of a file with certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of mirrors of one registry. Each adds a request to a failing pull.
const MIRRORS_MAX: usize = 16;

/// Reason why the configuration of registries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A `hosts.toml` has another form.
    #[error("{path}: {source}")]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: Box<toml::de::Error>,
    },
    /// A value is invalid.
    #[error("{path}: {reason}")]
    Value {
        /// Path of the file.
        path: PathBuf,
        /// Expectation.
        reason: String,
    },
}

/// Host from which images of a registry can be pulled.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// URL below which the repositories are: `https://registry.example/v2`.
    pub base: Url,
    /// Host and port, for messages and credentials.
    pub authority: String,
    /// Registry of the reference, if this is a mirror of it.
    pub mirrored: Option<String>,
    pub can_resolve: bool,
    pub can_pull: bool,
    pub skip_verify: bool,
    /// Certificates of authorities, in PEM.
    pub authorities: Vec<Vec<u8>>,
    pub headers: HeaderMap,
}

/// The file `hosts.toml`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    server: Option<String>,
    host: IndexMap<String, HostTable>,
    #[serde(flatten)]
    server_table: HostTable,
}

/// Settings of a host.
#[derive(Default, Deserialize)]
#[serde(default)]
struct HostTable {
    capabilities: Option<Vec<String>>,
    ca: Option<OneOrMore>,
    client: Option<toml::Value>,
    skip_verify: bool,
    header: IndexMap<String, OneOrMore>,
    override_path: bool,
}

/// A string or a list of strings.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn values(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::More(values) => values,
        }
    }
}

/// Returns the hosts for the images of a registry, in the order of use.
pub(super) fn hosts(directory: Option<&Path>, reference: &Reference) -> Result<Vec<Host>, HostsError> {
    let registry = reference.registry();
    let Some((path, content)) = directory
        .map(|directory| read(directory, registry))
        .transpose()?
        .flatten()
    else {
        return Ok(vec![default_host(registry)?]);
    };
    let file: File = toml::from_str(&content).map_err(|source| HostsError::Form {
        path: path.clone(),
        source: Box::new(source),
    })?;
    if file.host.len() > MIRRORS_MAX {
        return Err(HostsError::Value {
            reason: format!(
                "expected at most {MIRRORS_MAX} mirrors, found {}",
                file.host.len()
            ),
            path,
        });
    }
    let mut hosts = Vec::new();
    for (url, table) in &file.host {
        hosts.push(table.host(url, &path, Some(registry))?);
    }
    let server = match &file.server {
        Some(server) => server.clone(),
        None => default_url(registry),
    };
    let server = file.server_table.host(&server, &path, None)?;
    // A mirror table for the server itself replaces the server.
    if !hosts.iter().any(|host| host.base == server.base) {
        hosts.push(server);
    }
    Ok(hosts)
}

impl HostTable {
    /// Returns the host at a URL. `mirrored` is the registry that it is a mirror of.
    fn host(&self, url: &str, path: &Path, mirrored: Option<&str>) -> Result<Host, HostsError> {
        let invalid = |reason: String| HostsError::Value {
            path: path.to_owned(),
            reason,
        };
        if self.client.is_some() {
            return Err(invalid(format!("{url}: client certificates are not supported")));
        }
        let mut base =
            parse_url(url).ok_or_else(|| invalid(format!("expected a URL of a registry, found {url:?}")))?;
        let base_path = base.path().trim_end_matches('/').to_owned();
        if self.override_path || base_path.ends_with("/v2") {
            base.set_path(&base_path);
        } else {
            base.set_path(&format!("{base_path}/v2"));
        }
        let mut headers = HeaderMap::new();
        for (name, values) in &self.header {
            for value in values.values() {
                let name = HeaderName::try_from(name.as_str());
                let value = HeaderValue::try_from(value.as_str());
                let (Ok(name), Ok(mut value)) = (name, value) else {
                    return Err(invalid(format!("{url}: a header is invalid")));
                };
                value.set_sensitive(true);
                headers.append(name, value);
            }
        }
        let directory = path.parent().unwrap_or(path);
        let paths = self.ca.as_ref().map(OneOrMore::values).unwrap_or_default();
        let authorities = paths.iter().map(|name| {
            let path = directory.join(name);
            let content = read_bounded(&path)?;
            content.ok_or_else(|| HostsError::Read {
                path,
                source: io::ErrorKind::NotFound.into(),
            })
        });
        let has = |capability: &str| {
            let capabilities = self.capabilities.as_ref();
            capabilities.is_none_or(|capabilities| capabilities.iter().any(|has| has == capability))
        };
        Ok(Host {
            authority: authority(&base),
            can_resolve: has("resolve"),
            can_pull: has("pull"),
            skip_verify: self.skip_verify,
            authorities: authorities.collect::<Result<_, _>>()?,
            mirrored: mirrored.map(str::to_owned),
            headers,
            base,
        })
    }
}

/// Returns the registry without configuration. Registries on this host are used without TLS, as Docker and containerd
/// do.
fn default_host(registry: &str) -> Result<Host, HostsError> {
    HostTable::default().host(&default_url(registry), Path::new(registry), None)
}

fn default_url(registry: &str) -> String {
    let host = if registry == DEFAULT_REGISTRY {
        DEFAULT_REGISTRY_HOST
    } else {
        registry
    };
    let is_loopback = parse_url(&format!("http://{host}")).is_some_and(|url| match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    });
    let scheme = if is_loopback { "http" } else { "https" };
    format!("{scheme}://{host}")
}

fn parse_url(text: &str) -> Option<Url> {
    let with_scheme = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    let url = Url::parse(&with_scheme).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    (matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain).then_some(url)
}

/// Returns the host and port of a URL.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Reads the `hosts.toml` of a registry. A colon in a directory name may be written `HOST_PORT_`, as containerd allows.
fn read(directory: &Path, registry: &str) -> Result<Option<(PathBuf, String)>, HostsError> {
    let underscores = registry
        .split_once(':')
        .map(|(host, port)| format!("{host}_{port}_"));
    let names = [
        Some(registry.to_owned()),
        underscores,
        Some(DEFAULT_DIRECTORY.to_owned()),
    ];
    for name in names.into_iter().flatten() {
        let path = directory.join(name).join(FILE);
        if let Some(content) = read_bounded(&path)? {
            let text = String::from_utf8(content).map_err(|_| HostsError::Value {
                path: path.clone(),
                reason: "the file is not UTF-8".to_owned(),
            })?;
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, HostsError> {
    let at_path = |source| HostsError::Read {
        path: path.to_owned(),
        source,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at_path(error)),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => Err(HostsError::Value {
            path: path.to_owned(),
            reason: format!("the file has more than {FILE_BYTES_MAX} bytes"),
        }),
        Ok(_) => fs::read(path).map(Some).map_err(at_path),
    }
}
