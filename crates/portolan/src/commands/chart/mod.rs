//! `portolan chart`: the map of a cluster, as a web page or as a drawing.
//!
//! - [`page`]: the web server with the rights of a kubeconfig
//! - [`drawing`]: SVG, DOT and Mermaid

mod drawing;
mod page;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use chart::server::ADDRESS;
use clap::{Args, ValueEnum};
use explain::trace::CLUSTER_DOMAIN_DEFAULT;

use super::doctor::scope::ScopeFlags;
use crate::error::{CommandError, UsageError};
use crate::flags::administrator::AdministratorFlags;

/// Flags of `portolan chart`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    administrator: AdministratorFlags,
    #[command(flatten)]
    page: PageFlags,
    #[command(flatten)]
    drawing: DrawingFlags,
}

/// Flags of the page.
#[derive(Debug, Args)]
#[command(next_help_heading = "Web page")]
struct PageFlags {
    /// Listen address of the page; only loopback addresses, because it has no TLS
    #[arg(long, default_value = ADDRESS, value_name = "ADDRESS:PORT")]
    bind_address: SocketAddr,
    /// Name of the cluster on the page and in drawings [default: the address of the API server]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Zone of the cluster, for traces
    #[arg(long, default_value = CLUSTER_DOMAIN_DEFAULT, value_name = "DOMAIN")]
    cluster_domain: String,
}

/// Flags of drawings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drawing")]
struct DrawingFlags {
    /// Print a drawing of the Services instead of serving the page
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    scope: ScopeFlags,
    /// Namespace of the Services [default: all namespaces]
    #[arg(long, short, value_name = "NAME", conflicts_with = "kind")]
    namespace: Option<String>,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them, or - for standard input; repeatable
    /// [default: the objects of the API server]
    #[arg(long, value_name = "FILE")]
    from_file: Vec<PathBuf>,
}

/// Format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Scalable Vector Graphics
    Svg,
    /// Graph for Graphviz
    Dot,
    /// Flowchart for Markdown
    Mermaid,
}

/// Prints a drawing, or serves the page until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid, the objects cannot be read, or the address is in use.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let drawing = &flags.drawing;
    match drawing.output {
        Some(format) => drawing::run(flags, format),
        None => {
            let has_selection = drawing.scope.kind.is_some() || drawing.namespace.is_some();
            if has_selection || !drawing.from_file.is_empty() {
                return Err(UsageError::new(
                    "a Service, --namespace and --from-file select the content of a drawing: add --output svg, dot or mermaid",
                )
                .into());
            }
            page::run(flags)
        }
    }
}
