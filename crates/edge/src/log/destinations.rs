//! Destinations of access logs: a directory, or buckets of an S3-compatible service.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, RetryConfig};

use super::quota::DirectoryLimits;
use crate::settings::LogDestination;

/// Time for a request to an S3-compatible service.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Destinations that access logs may use, from the flags and the environment of the process.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    /// Directory of [`LogDestination::Directory`] (`--edge-access-log-directory`).
    pub directory: Option<PathBuf>,
    /// Limits of the directory.
    pub directory_limits: DirectoryLimits,
    /// Service with the buckets of [`LogDestination::Bucket`].
    pub s3: S3,
    /// Name of this node, a part of file names; `localhost` if empty.
    pub host: String,
}

/// S3-compatible service. Credentials that are not set come from the identity of the node, as in AWS's own
/// programs.
#[derive(Clone, Default)]
pub struct S3 {
    /// URL of the service, if it is not AWS; `http` for a service without TLS (`--edge-access-log-s3-endpoint`,
    /// `AWS_ENDPOINT_URL`).
    pub endpoint: Option<String>,
    /// Region of the service (`--edge-access-log-s3-region`, `AWS_REGION`, `AWS_DEFAULT_REGION`); `us-east-1` by
    /// default.
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

/// Reason why a destination cannot be used. Only other settings help.
#[derive(Debug, thiserror::Error)]
pub(super) enum DestinationError {
    /// The process was given no directory.
    #[error("expected a directory for access logs, found none; set --edge-access-log-directory")]
    NoDirectory,
    /// The directory cannot be used.
    #[error("directory {directory} for access logs: {source}")]
    Directory {
        /// Path of the directory.
        directory: PathBuf,
        /// I/O error.
        source: std::io::Error,
    },
    /// The settings of the destination are invalid.
    #[error("{destination} for access logs: {source}")]
    Settings {
        /// Bucket or directory.
        destination: String,
        /// Error of the object store.
        source: object_store::Error,
    },
}

impl S3 {
    /// Reads the settings from environment variables, which `variable` returns.
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
            // The writer retries, for all destinations alike.
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

impl Destinations {
    /// Returns the store of a destination, which writes each file as a whole.
    ///
    /// # Errors
    /// See [`DestinationError`].
    pub(super) fn store(
        &self,
        destination: &LogDestination,
    ) -> Result<Arc<dyn ObjectStore>, DestinationError> {
        match destination {
            LogDestination::Directory => {
                let directory = self.directory.as_ref().ok_or(DestinationError::NoDirectory)?;
                std::fs::create_dir_all(directory).map_err(|source| DestinationError::Directory {
                    directory: directory.clone(),
                    source,
                })?;
                let store = LocalFileSystem::new_with_prefix(directory).map_err(|source| {
                    DestinationError::Settings {
                        destination: format!("directory {}", directory.display()),
                        source,
                    }
                })?;
                // Directories of prefixes and dates are removed with their last file.
                Ok(Arc::new(store.with_automatic_cleanup(true)))
            }
            LogDestination::Bucket(bucket) => {
                self.s3
                    .bucket(bucket)
                    .map_err(|source| DestinationError::Settings {
                        destination: format!("bucket {bucket}"),
                        source,
                    })
            }
        }
    }

    /// Returns the node's name in file names.
    pub(super) fn host(&self) -> &str {
        if self.host.is_empty() {
            "localhost"
        } else {
            &self.host
        }
    }
}
