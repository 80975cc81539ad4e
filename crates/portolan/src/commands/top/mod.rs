//! `portolan top`: traffic of Services, endpoints and clients.
//!
//! - [`table`]: tables for text and for the screen
//! - [`units`]: numbers with units
//! - [`notes`]: limits of a report
//! - [`screen`]: `--watch` in a terminal

pub(crate) mod notes;
mod screen;
pub(crate) mod table;
pub(crate) mod units;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use api::object::ObjectKey;
use clap::{Args, Subcommand, ValueEnum};
use explain::traffic::{ClusterTraffic, RowSelection, Selection};
use jiff::Timestamp;

use crate::error::{CommandError, UsageError};
use crate::flags::traffic::TrafficFlags;
use crate::output;
use crate::traffic::query::Query;
use crate::traffic::source::Source;
use crate::traffic::watcher::Watcher;
use notes::notes;
use screen::{Screen, View};
use table::{SortKey, Table, sorted_services};

/// Namespace without `--namespace`, as for kubectl.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Subcommands of `portolan top`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show connections, rates, bytes and failures of Services; with a name, also of its endpoints and clients
    #[command(aliases = ["service", "svc"])]
    Services(Flags),
    /// Show connections, rates, bytes and failures of the endpoints of Services
    #[command(alias = "endpoint")]
    Endpoints(Flags),
    /// Show connections, rates, bytes and failures of the clients of Services
    #[command(alias = "client")]
    Clients(Flags),
}

/// Flags of `portolan top services` and its siblings.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Service [default: all Services of the namespace]
    #[arg(value_name = "[NAMESPACE/]NAME")]
    name: Option<String>,
    /// Namespace
    #[arg(long, short, default_value = DEFAULT_NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// Show the Services of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "name"])]
    all_namespaces: bool,
    /// Order of the rows
    #[arg(long, default_value = "connections", value_name = "COLUMN")]
    sort_by: SortKey,
    /// Show each interval until the command is stopped; in a terminal, on a screen with drill-down
    #[arg(long, short)]
    watch: bool,
    /// Output format
    #[arg(long, short, default_value = "table", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    traffic: TrafficFlags,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table
    Table,
    /// Table with more columns
    Wide,
    /// JSON object; with --watch, one object a line
    Json,
    /// YAML document
    Yaml,
}

impl Format {
    /// Renders traffic as an object; `None` if the format is a table.
    ///
    /// # Errors
    ///
    /// An error if the traffic cannot be encoded.
    pub(crate) fn object(
        self,
        traffic: &ClusterTraffic,
        watch: bool,
    ) -> Result<Option<String>, CommandError> {
        let value = || serde_json::to_value(traffic);
        Ok(match self {
            Self::Table | Self::Wide => None,
            Self::Json if watch => Some(format!("{}\n", value()?)),
            Self::Json => Some(format!("{:#}\n", value()?)),
            Self::Yaml => Some(format!("---\n{}", serde_saphyr::to_string(&value()?)?)),
        })
    }
}

/// Shows traffic. The exit code is 1 if no node has reported.
///
/// # Errors
///
/// An error if a flag is invalid, or traffic cannot be read.
pub(crate) fn run(command: &Command) -> Result<ExitCode, CommandError> {
    let (view, flags) = match command {
        Command::Services(flags) => (View::Services, flags),
        Command::Endpoints(flags) => (View::Endpoints, flags),
        Command::Clients(flags) => (View::Clients, flags),
    };
    let selection = flags.selection()?;
    let query = Query {
        interval: flags.traffic.interval,
        selection: selection.clone(),
        rows: RowSelection::default(),
    };
    let mut source = Source::open(&flags.traffic, query)?;
    if flags.watch && flags.output == Format::Table && is_terminal() {
        let service = match &selection {
            Selection::Service(key) => Some(key.clone()),
            Selection::All | Selection::Namespace(_) => None,
        };
        screen::run(
            Screen::new(view, service, flags.sort_by),
            &Watcher::start(source)?,
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let never = AtomicBool::new(false);
    loop {
        let traffic = source.next(&never)?;
        let text = match flags.output.object(&traffic, flags.watch)? {
            Some(text) => text,
            None => text(&traffic, view, flags, &selection),
        };
        for note in notes(&traffic) {
            eprintln!("portolan: {note}");
        }
        if !output::print_while_open(&text) || !flags.watch {
            return Ok(exit_code(&traffic));
        }
    }
}

/// Returns true if a person can use the screen.
fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Returns the exit code of a command that showed traffic.
pub(crate) fn exit_code(traffic: &ClusterTraffic) -> ExitCode {
    if traffic.has_reports() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Flags {
    fn selection(&self) -> Result<Selection, UsageError> {
        if self.all_namespaces {
            return Ok(Selection::All);
        }
        match &self.name {
            Some(name) => Ok(Selection::Service(service_key(name, &self.namespace)?)),
            None => Ok(Selection::Namespace(self.namespace.clone())),
        }
    }
}

/// Parses `[NAMESPACE/]NAME`.
fn service_key(text: &str, namespace: &str) -> Result<ObjectKey, UsageError> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(UsageError::new(
            "the Service must have the form NAME or NAMESPACE/NAME, for example shop/web",
        ));
    }
    Ok(ObjectKey::new(namespace, name))
}

/// Renders the tables of an interval.
fn text(traffic: &ClusterTraffic, view: View, flags: &Flags, selection: &Selection) -> String {
    let sort = flags.sort_by;
    let services = sorted_services(traffic, sort);
    let mut text = String::new();
    if flags.watch {
        text.push_str(&format!("{}\n", Timestamp::now().strftime("%H:%M:%S")));
    }
    if services.is_empty() && traffic.has_reports() {
        text.push_str(&format!("No traffic {}\n", subject(selection)));
        return text;
    }
    let is_one = matches!(selection, Selection::Service(_));
    let mut tables = Vec::new();
    if view == View::Services {
        tables.push(Table::of_services(traffic, sort, flags.output == Format::Wide));
    }
    if view == View::Endpoints || (view == View::Services && is_one) {
        tables.push(Table::of_endpoints(&services, sort));
    }
    if view == View::Clients || (view == View::Services && is_one) {
        tables.push(Table::of_clients(&services, sort));
    }
    let tables: Vec<String> = tables.iter().map(Table::render).collect();
    text.push_str(&tables.join("\n"));
    if flags.watch {
        text.push('\n');
    }
    text
}

fn subject(selection: &Selection) -> String {
    match selection {
        Selection::All => "of Services in the interval".to_owned(),
        Selection::Namespace(namespace) => {
            format!("of Services in namespace {namespace} in the interval (-A for all namespaces)")
        }
        Selection::Service(key) => format!("of Service {key} in the interval"),
    }
}

#[cfg(test)]
mod tests;
