//! CustomResourceDefinition of AddressPools, for API servers without the built-in kind.

/// Manifest, as printed by `portolan balancer crd`.
pub const MANIFEST: &str = include_str!("crd.yaml");

#[cfg(test)]
mod tests;
