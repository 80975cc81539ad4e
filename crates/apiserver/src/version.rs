//! Version of the Kubernetes API that the server reports.

/// Kubernetes version; the build metadata behind `+` names the implementation.
pub const GIT_VERSION: &str = "v1.36.2+portolan";
