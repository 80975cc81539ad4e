//! Reports about the node, which the API server reads: its observation, and the flows through its proxy.
//!
//! The binary supplies the content as [`Provider`]s. Creating a report blocks and costs time, so the number of reports
//! that are created at the same time is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::object::ObjectKey;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Reports of one kind that are created at the same time. The kinds are separate because reports of flows take up to
/// 20 s, and must not delay observations. An observation reads every process and every Service of the node.
const CONCURRENT_MAX: usize = 2;
/// Wait of a request for one of them. Clients of the API server wait longer.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Bytes of one report: 1 MiB below the limit of the API server.
const REPORT_BYTES_MAX: usize = 7 << 20;

/// Kind of a report: a subresource of the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportKind {
    /// Observation of the node.
    Observation,
    /// Flows through the proxy of the node.
    Flows,
}

impl ReportKind {
    /// Returns the kind of a subresource.
    pub fn of_subresource(name: &str) -> Option<Self> {
        match name {
            "observation" => Some(Self::Observation),
            "flows" => Some(Self::Flows),
            _ => None,
        }
    }

    /// Returns the name of the subresource.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Observation => "observation",
            Self::Flows => "flows",
        }
    }
}

/// Parameters of a report. Each kind has parameters of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRequest(BTreeMap<String, String>);

/// Reason why a request has no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A parameter is invalid. A retry does not help.
    #[error("invalid parameter {name}: expected {expected}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Valid values.
        expected: &'static str,
    },
    /// This agent has no report of the kind. A retry does not help.
    #[error("this agent has no report {0:?}")]
    NotProvided(&'static str),
    /// Others are being created. A retry helps.
    #[error("{CONCURRENT_MAX} reports are created at the same time; try again")]
    Busy,
    /// The report is larger than the limit.
    #[error("expected a report of at most {REPORT_BYTES_MAX} bytes, found {0}")]
    TooLarge(usize),
    /// The report cannot be created. A retry can help.
    #[error("{0}")]
    Failed(String),
}

/// Creates a report as JSON. It runs on a thread for blocking work.
pub type Provider = Arc<dyn Fn(&ReportRequest) -> Result<Vec<u8>, ReportError> + Send + Sync>;

/// Providers of reports. Clones share their limits.
#[derive(Clone)]
pub struct Reports {
    providers: BTreeMap<ReportKind, Provider>,
    permits: BTreeMap<ReportKind, Arc<Semaphore>>,
    wait_max: Duration,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            permits: BTreeMap::new(),
            wait_max: WAIT_MAX,
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.providers.keys()).finish()
    }
}

impl ReportRequest {
    /// Parses a query such as `service=shop/web&probe=true`. The API server passes on known parameters only, whose
    /// values need no escapes.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Returns the value of a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of a boolean parameter; false without one.
    ///
    /// # Errors
    ///
    /// [`ReportError::Parameter`] if the value is neither `true` nor `false`.
    pub fn flag(&self, name: &'static str) -> Result<bool, ReportError> {
        let value = self.text(name).unwrap_or("false");
        value.parse().map_err(|_| ReportError::Parameter {
            name,
            expected: "true or false",
        })
    }

    /// Returns the namespace and name in a parameter.
    ///
    /// # Errors
    ///
    /// [`ReportError::Parameter`] if the value has another form.
    pub fn key(&self, name: &'static str) -> Result<Option<ObjectKey>, ReportError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let parts = value
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
        let (namespace, object) = parts.ok_or(ReportError::Parameter {
            name,
            expected: "NAMESPACE/NAME",
        })?;
        Ok(Some(ObjectKey::new(namespace, object)))
    }
}

impl Reports {
    /// Adds the provider of a kind.
    #[must_use]
    pub fn with(mut self, kind: ReportKind, provider: Provider) -> Self {
        self.providers.insert(kind, provider);
        self.permits
            .insert(kind, Arc::new(Semaphore::new(CONCURRENT_MAX)));
        self
    }

    /// Creates a report. The provider runs to its end, also if the client disconnects, and counts until then.
    ///
    /// # Errors
    ///
    /// See [`ReportError`].
    pub(crate) async fn create(
        &self,
        kind: ReportKind,
        request: ReportRequest,
    ) -> Result<Vec<u8>, ReportError> {
        let provider = self.providers.get(&kind).cloned();
        let found = provider.zip(self.permits.get(&kind).cloned());
        let (provider, permits) = found.ok_or(ReportError::NotProvided(kind.subresource()))?;
        let permit = timeout(self.wait_max, permits.acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(ReportError::Busy);
        };
        let created = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            provider(&request)
        });
        let report = created.await.map_err(|error| {
            tracing::error!(report = kind.subresource(), %error, "provider of a report panicked");
            ReportError::Failed("the report cannot be created".to_owned())
        })??;
        match report.len() {
            bytes if bytes > REPORT_BYTES_MAX => Err(ReportError::TooLarge(bytes)),
            _ => Ok(report),
        }
    }
}

#[cfg(test)]
mod tests;
