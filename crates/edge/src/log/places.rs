//! Where the files of access logs go.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, RetryConfig};

use super::quota::DirectoryLimits;
use crate::settings::LogDestination;

/// How long a request to an S3-compatible service may take.
const REQUEST_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Where access logs may go: what the process was given, by its flags and its environment.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The directory of [`LogDestination::Directory`] (`--edge-access-log-directory`).
    pub directory: Option<PathBuf>,
    /// How much of it they may take.
    pub directory_limits: DirectoryLimits,
    /// The service that has the buckets of [`LogDestination::Bucket`].
    pub s3: S3,
    /// This machine's name, a part of the names of files; `localhost` if empty.
    pub host: String,
}

/// An S3-compatible service. What is not set is looked for as AWS's own programs do: credentials in the machine's identity.
#[derive(Clone, Default)]
pub struct S3 {
    /// Its URL, if it is not AWS's; with `http` if it has no TLS (`--edge-access-log-s3-endpoint`, `AWS_ENDPOINT_URL`).
    pub endpoint: Option<String>,
    /// Its region (`--edge-access-log-s3-region`, `AWS_REGION`, `AWS_DEFAULT_REGION`); `us-east-1` if not set.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: Option<String>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<String>,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<String>,
}

/// Credentials stay out of logs.
impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// Lines cannot go where they should. Only other settings help.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// No directory was given.
    #[error("no directory for access logs was given (--edge-access-log-directory)")]
    NoDirectory,
    /// The directory cannot be used.
    #[error("directory {directory} cannot hold access logs: {source}")]
    Directory {
        /// Which.
        directory: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// The settings of the destination are of no use.
    #[error("{destination} cannot hold access logs: {source}")]
    Settings {
        /// Which.
        destination: String,
        /// What is wrong.
        source: object_store::Error,
    },
}

impl S3 {
    /// What the environment says, asked by `variable`.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            access_key_id: variable("AWS_ACCESS_KEY_ID"),
            secret_access_key: variable("AWS_SECRET_ACCESS_KEY"),
            session_token: variable("AWS_SESSION_TOKEN"),
        }
    }

    fn bucket(&self, bucket: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
        let region = self.region.as_deref().unwrap_or("us-east-1");
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(region)
            .with_client_options(ClientOptions::new().with_timeout(REQUEST_TIMEOUT))
            // Whoever writes a file tries again, whatever the place is.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        if let Some(endpoint) = &self.endpoint {
            let is_plain = endpoint.starts_with("http://");
            builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
        }
        if let Some(id) = &self.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &self.secret_access_key {
            builder = builder.with_secret_access_key(secret);
        }
        if let Some(token) = &self.session_token {
            builder = builder.with_token(token);
        }
        Ok(Arc::new(builder.build()?))
    }
}

impl Places {
    /// What writes files there, each of them whole or not at all.
    pub(super) fn store(&self, destination: &LogDestination) -> Result<Arc<dyn ObjectStore>, PlaceError> {
        match destination {
            LogDestination::Directory => {
                let directory = self.directory.as_ref().ok_or(PlaceError::NoDirectory)?;
                std::fs::create_dir_all(directory).map_err(|source| PlaceError::Directory {
                    directory: directory.clone(),
                    source,
                })?;
                let store =
                    LocalFileSystem::new_with_prefix(directory).map_err(|source| PlaceError::Settings {
                        destination: format!("directory {}", directory.display()),
                        source,
                    })?;
                // Directories of prefixes and dates go with their last file.
                Ok(Arc::new(store.with_automatic_cleanup(true)))
            }
            LogDestination::Bucket(bucket) => self.s3.bucket(bucket).map_err(|source| PlaceError::Settings {
                destination: format!("bucket {bucket}"),
                source,
            }),
        }
    }

    /// The machine's name as it goes into the names of files.
    pub(super) fn host(&self) -> &str {
        if self.host.is_empty() {
            "localhost"
        } else {
            &self.host
        }
    }
}
