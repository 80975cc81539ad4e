//! Annotations of load balancers (LBC-01 … LBC-16): one table for Portolan, MetalLB, kube-vip and the clouds.
//!
//! An annotation is in one of these states:
//!
//! - **Applied.** The assigner ([`crate::assigner::AddressRequest`]), the announcer or the edge ([`EdgeSpec`]) applies
//!   it.
//! - **Without effect.** It has no meaning outside of its cloud, or no meaning without the edge. Its name is reported
//!   once.
//! - **Unknown.** Its name has the prefix of a load balancer's annotations. It is reported, too.
//!
//! An invalid value is an [`AnnotationError`], which states the allowed values. All other annotations still apply. If
//! an annotation that restricts clients cannot be applied, the Service has no address ([`restrictions`]).

mod edge_spec;
mod providers;
pub mod restrictions;
pub mod row;
mod setting;
#[cfg(test)]
mod tests;
pub mod value;
mod values;

use std::collections::HashMap;
use std::sync::LazyLock;

use api::object::Service;
use api::selector::LabelSelector;

use restrictions::Restrictions;
use row::{Annotation, AnnotationMeaning, ApplyError, EdgeNeed, Effect, Row};
use values::AnnotationValues;

/// Class of the Services that the edge serves, independent of their annotations.
pub use api::edge_secret::EDGE_CLASS;
pub use edge_spec::{
    AccessLogSpec, EdgeSpec, FrontendSpec, ListenerSpec, NO_CERTIFICATE, PROTOCOL_NOT_SUPPORTED, RefusedPort,
    http_backend_protocol,
};

/// Annotation with port ranges, which the node proxy serves and the edge does not.
pub(crate) const PORT_RANGES_ANNOTATION: &str = "service.portolan.dev/port-ranges";
/// Maximum length of a value that an error quotes; conditions and Events are bounded.
const QUOTED_BYTES_MAX: usize = 256;

/// Rows of the table by name.
static ROWS_BY_NAME: LazyLock<HashMap<&'static str, &'static Row>> =
    LazyLock::new(|| rows().map(|row| (row.name, row)).collect());

/// Returns all rows, grouped by provider.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    providers::ALL.iter().flat_map(|provider| provider.rows)
}

/// Providers with their rows, in the order of the documentation.
pub fn providers() -> impl Iterator<Item = (&'static str, &'static [Row])> {
    providers::ALL
        .iter()
        .map(|provider| (provider.name, provider.rows))
}

/// Annotation that is not applied, or only in part. The user has to change the Service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The value is invalid.
    #[error("annotation {annotation} has the value {value:?}, expected {allowed}")]
    InvalidValue {
        /// Name of the annotation.
        annotation: String,
        /// Value of the annotation, at most 256 bytes.
        value: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// Two annotations select different values; the first by name takes precedence.
    #[error("annotations {first} and {second} have different values: {first} applies, remove one of them")]
    Conflict {
        /// The annotation that takes precedence.
        first: String,
        /// The ignored annotation.
        second: String,
    },
    /// The annotation restricts clients in a way that cannot be applied.
    #[error("annotation {annotation} restricts clients and cannot be applied here: {remedy}")]
    Unenforceable {
        /// Name of the annotation.
        annotation: String,
        /// Change that resolves the error.
        remedy: &'static str,
    },
    /// A setting lacks something that it needs.
    #[error("{0}")]
    Incomplete(String),
}

impl AnnotationError {
    fn invalid_value(annotation: &str, value: &str, allowed: String) -> Self {
        let mut value = value.to_owned();
        if value.len() > QUOTED_BYTES_MAX {
            let end = (0..=QUOTED_BYTES_MAX)
                .rev()
                .find(|end| value.is_char_boundary(*end));
            value.truncate(end.unwrap_or(0));
            value.push('…');
        }
        Self::InvalidValue {
            annotation: annotation.to_owned(),
            value,
            allowed,
        }
    }
}

/// Result of reading all annotations of a Service.
#[derive(Debug, Default)]
pub struct Reading {
    /// Configuration of the edge; `None` if forwarding packets suffices.
    pub edge: Option<EdgeSpec>,
    /// Name in the status alongside the address (LBC-11).
    pub hostname: Option<String>,
    /// Nodes that may announce the addresses (LBC-13); a node has to match all selectors.
    pub nodes: Vec<LabelSelector>,
    /// True if Pods of the Service leave the cluster with its address.
    pub is_egress: bool,
    /// Annotations that are not applied because of an error.
    pub errors: Vec<AnnotationError>,
    /// Annotations that restrict clients.
    pub restrictions: Restrictions,
    /// Annotations without effect outside of their cloud.
    pub cloud_only: Vec<&'static str>,
    /// Annotations that only the edge applies, of a Service that it does not serve.
    pub edge_only: Vec<&'static str>,
    /// Annotations with the prefix of a provider that the table lacks.
    pub unknown: Vec<String>,
}

/// Reads the annotations of a Service.
pub fn read(service: &Service) -> Reading {
    let mut reading = Reading::default();
    let mut values = AnnotationValues::default();
    values.clients.has_ranges_in_spec = !service.spec.load_balancer_source_ranges.is_empty();
    for (name, value) in &service.metadata.annotations {
        reading.read_annotation(service, name, value.trim(), &mut values);
    }
    reading.hostname = values.hostname.get().cloned();
    reading.nodes = std::mem::take(&mut values.node_selectors);
    reading.is_egress = values.is_egress.get_or(false);
    reading
        .errors
        .extend(reading.restrictions.resolve(&values, service));
    if values.clients.ranges_source.is_some() {
        values.edge_need = EdgeNeed::Required;
    }
    let (spec, errors) = edge_spec::resolve(&values, service);
    let is_of_class = service.spec.load_balancer_class.as_deref() == Some(EDGE_CLASS);
    if is_of_class || values.needs_edge() {
        reading.edge = Some(spec);
        reading.errors.extend(errors);
        reading.edge_only.clear();
    }
    reading
}

impl Reading {
    fn read_annotation(&mut self, service: &Service, name: &str, value: &str, values: &mut AnnotationValues) {
        let Some(row) = ROWS_BY_NAME.get(name) else {
            if providers::has_known_prefix(name) {
                let remedy = providers::restriction_by_name(name).filter(|_| !value.is_empty());
                match remedy {
                    Some(remedy) => self.restrictions.add_unenforceable(name, remedy),
                    None => self.unknown.push(name.to_owned()),
                }
            }
            return;
        };
        // Manifests from templates have empty values for settings that are not set.
        if value.is_empty() {
            return;
        }
        if providers::is_disabled_by_other(name, &service.metadata.annotations) {
            self.cloud_only.push(row.name);
            return;
        }
        self.apply(row, value, values);
    }

    /// Reads the value of an annotation into `values`, or records its fault.
    fn apply(&mut self, row: &'static Row, value: &str, values: &mut AnnotationValues) {
        let annotation = Annotation {
            name: row.name,
            value,
        };
        let outcome = match row.meaning {
            // The assigner reads these and gives no address until their errors are resolved.
            AnnotationMeaning::Scope { .. }
            | AnnotationMeaning::Addresses
            | AnnotationMeaning::FamilyAddress(_)
            | AnnotationMeaning::Pool
            | AnnotationMeaning::SharingKey
            | AnnotationMeaning::Written => return,
            AnnotationMeaning::CloudOnly(check) => {
                self.cloud_only.push(row.name);
                check
                    .map_or(Ok(()), |check| check(value))
                    .map(|()| Effect::Unchanged)
                    .map_err(ApplyError::InvalidValue)
            }
            AnnotationMeaning::Direct(apply) => apply(values, annotation),
            AnnotationMeaning::Setting(_, apply) => apply(values, annotation).inspect(|effect| {
                if *effect == Effect::Changed {
                    self.edge_only.push(row.name);
                }
            }),
            AnnotationMeaning::ClientRanges(apply) => {
                if let Err(ApplyError::InvalidValue(error)) = apply(values, annotation) {
                    let error = AnnotationError::invalid_value(row.name, value, error.into_expected());
                    self.restrictions.add_invalid(error);
                }
                return;
            }
            AnnotationMeaning::Unenforceable(remedy) => {
                self.restrictions.add_unenforceable(row.name, remedy);
                return;
            }
            AnnotationMeaning::EdgeOnly(apply) => {
                self.edge_only.push(row.name);
                apply(values, annotation).map(|_| Effect::Unchanged)
            }
        };
        self.record(row, value, outcome, values);
    }

    /// Records the effect or the error of an annotation.
    fn record(
        &mut self,
        row: &'static Row,
        value: &str,
        outcome: Result<Effect, ApplyError>,
        values: &mut AnnotationValues,
    ) {
        match outcome {
            Ok(Effect::Unchanged) => {}
            Ok(Effect::Changed) => {
                let need = match row.meaning {
                    AnnotationMeaning::Setting(need, _) => need,
                    _ => EdgeNeed::None,
                };
                values.edge_need = values.edge_need.max(need);
            }
            Err(ApplyError::InvalidValue(error)) => {
                let error = AnnotationError::invalid_value(row.name, value, error.into_expected());
                self.errors.push(error);
            }
            Err(ApplyError::Conflict(first)) => self.errors.push(AnnotationError::Conflict {
                first: first.to_owned(),
                second: row.name.to_owned(),
            }),
        }
    }
}
