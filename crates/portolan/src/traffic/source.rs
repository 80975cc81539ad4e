//! Traffic for a command: of this node, or of all nodes.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use agent::server::reports::ReportKind;
use client::Client;
use explain::traffic::{Attribution, ClusterTraffic, Names, Selection};
use explain::{Kind, World, WorldBuilder};
use tokio::runtime::Runtime;

use super::kernel_settings;
use super::local_plan::LocalProxy;
use super::nodes;
use super::query::Query;
use super::reader::Reader;
use crate::commands::doctor::source::Source as Objects;
use crate::error::CommandError;
use crate::flags::traffic::TrafficFlags;
use crate::flags::values::hostname;
use crate::node_observation::PLAN_KINDS;
use crate::node_reports::is_served;
use crate::runtime;

/// Period in which the objects of the API are listed again.
const OBJECTS_PERIOD: Duration = Duration::from_secs(30);
/// Kinds that name addresses.
const NAMED_KINDS: [Kind; 1] = [Kind::Pod];

/// Source of traffic.
pub(crate) struct Source {
    query: Query,
    objects: ObjectSource,
    world: World,
    names: Names,
    listed_at: Instant,
    from: Origin,
}

/// API server or files with the objects.
enum ObjectSource {
    Api { runtime: Runtime, client: Client },
    Files,
}

/// Origin of the reports of nodes.
enum Origin {
    /// All nodes, through the API server.
    Nodes,
    /// This node.
    ThisNode {
        node_name: String,
        proxy: Box<LocalProxy>,
        reader: Box<Reader>,
    },
}

impl Source {
    /// Opens the source that the flags select. Without `--local`, it is all nodes, if the API server has their reports.
    ///
    /// # Errors
    ///
    /// An error if a flag is invalid, the selected Service does not exist, or the objects or connection tracking cannot be
    /// read.
    pub(crate) fn open(flags: &TrafficFlags, query: Query) -> Result<Self, CommandError> {
        flags.validate()?;
        let (objects, builder) = if flags.from_file.is_empty() {
            let client = flags.administrator.client()?;
            let runtime = runtime::multi_thread(1)?;
            let builder = list(&runtime, &client)?;
            (ObjectSource::Api { runtime, client }, builder)
        } else {
            (
                ObjectSource::Files,
                Objects::from_files(&flags.from_file)?.builder,
            )
        };
        check_selection(&builder, &query.selection)?;
        if let ObjectSource::Api { runtime, client } = &objects
            && !flags.is_local()
            && runtime.block_on(is_served(client, ReportKind::Flows))?
        {
            if flags.enable_accounting {
                return Err(crate::error::UsageError::new(
                    "--enable-accounting needs --local: it changes this host only",
                )
                .into());
            }
            return Ok(Self::new(query, objects, builder, Origin::Nodes));
        }
        if flags.enable_accounting {
            kernel_settings::enable_accounting()?;
        }
        let node_name = flags.node.clone().unwrap_or_else(hostname);
        let proxy = LocalProxy::find();
        let plan = proxy.plan(&builder, &node_name)?;
        let reader = Reader::open(Attribution::of(&plan, &query.selection))?;
        let from = Origin::ThisNode {
            node_name,
            proxy: Box::new(proxy),
            reader: Box::new(reader),
        };
        Ok(Self::new(query, objects, builder, from))
    }

    fn new(query: Query, objects: ObjectSource, builder: WorldBuilder, from: Origin) -> Self {
        let world = builder.build();
        Self {
            query,
            objects,
            names: Names::of(&world),
            world,
            listed_at: Instant::now(),
            from,
        }
    }

    /// Returns the Pods and Nodes of addresses.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the query, for changes before the first report.
    pub(crate) fn query_mut(&mut self) -> &mut Query {
        &mut self.query
    }

    /// Waits for an interval and returns its traffic. The interval ends early when `stop` is set.
    ///
    /// # Errors
    ///
    /// An error if connection tracking or the API server fails. A retry may help.
    pub(crate) fn next(&mut self, stop: &AtomicBool) -> Result<ClusterTraffic, CommandError> {
        self.refresh()?;
        let results = match (&mut self.from, &self.objects) {
            (Origin::Nodes, ObjectSource::Api { runtime, client }) => {
                runtime.block_on(nodes::reports(client, &self.world, &self.query))
            }
            (Origin::Nodes, ObjectSource::Files) => Vec::new(),
            (
                Origin::ThisNode {
                    node_name,
                    proxy,
                    reader,
                },
                _,
            ) => {
                let mut report = reader.read(self.query.interval, &self.query.rows(), stop)?;
                report.metadata.name.clone_from(node_name);
                report.mode.clone_from(&proxy.mode);
                vec![(node_name.clone(), Ok(report))]
            }
        };
        Ok(ClusterTraffic::merge(results, &self.names))
    }

    /// Lists the objects again, if they are old. After a failure the previous ones stay.
    fn refresh(&mut self) -> Result<(), CommandError> {
        let ObjectSource::Api { runtime, client } = &self.objects else {
            return Ok(());
        };
        if self.listed_at.elapsed() < OBJECTS_PERIOD {
            return Ok(());
        }
        self.listed_at = Instant::now();
        let builder = match list(runtime, client) {
            Ok(builder) => builder,
            Err(error) => {
                tracing::debug!(%error, "objects not listed again");
                return Ok(());
            }
        };
        if let Origin::ThisNode {
            node_name,
            proxy,
            reader,
        } = &mut self.from
        {
            let plan = proxy.plan(&builder, node_name)?;
            reader.set_attribution(Attribution::of(&plan, &self.query.selection));
        }
        self.world = builder.build();
        self.names = Names::of(&self.world);
        Ok(())
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

fn list(runtime: &Runtime, client: &Client) -> Result<WorldBuilder, CommandError> {
    let kinds = PLAN_KINDS.into_iter().chain(NAMED_KINDS);
    let source = runtime.block_on(Objects::of_kinds(client, kinds))?;
    Ok(source.builder)
}

/// Fails with kubectl's text if the selected Service does not exist.
fn check_selection(objects: &WorldBuilder, selection: &Selection) -> Result<(), CommandError> {
    match selection {
        Selection::Service(key) if !objects.contains(Kind::Service, &key.namespace, &key.name) => {
            Err(format!("services {:?} not found", key.name).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
