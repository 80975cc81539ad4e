//! AddressPools as a CustomResourceDefinition, for clusters whose API server does not have the kind built in.

/// The manifest: `portolan balancer crd | kubectl apply -f -`.
pub const MANIFEST: &str = include_str!("crd.yaml");

#[cfg(test)]
mod tests;
