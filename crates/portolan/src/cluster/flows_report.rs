//! Flows of this node for the agent's endpoint, by the plan of the node's proxy.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agent::server::reports::{Provider, ReportError, ReportRequest};
use explain::traffic::Attribution;
use proxy::PlanReader;

use crate::traffic::query::Query;
use crate::traffic::reader::Reader;

/// Time for the frontends of the plan. The proxy responds between two changes of the kernel.
const PLAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the provider of the flows of a node. Each report takes an interval.
pub(super) fn provider(node_name: String, mode: String, plan: PlanReader) -> Provider {
    Arc::new(move |request| report(&node_name, &mode, &plan, request))
}

fn report(
    node_name: &str,
    mode: &str,
    plan: &PlanReader,
    request: &ReportRequest,
) -> Result<Vec<u8>, ReportError> {
    let query = Query::parse(request)?;
    let failed = |error: &dyn std::fmt::Display| ReportError::Failed(error.to_string());
    let selection = query.selection.clone();
    let attribution = plan
        .read(PLAN_TIMEOUT, move |plan| Attribution::of(plan, &selection))
        .map_err(|error| failed(&error))?;
    let mut reader = Reader::open(attribution).map_err(|error| failed(&error))?;
    let mut report = reader
        .read(query.interval, &query.rows(), &AtomicBool::new(false))
        .map_err(|error| failed(&error))?;
    node_name.clone_into(&mut report.metadata.name);
    mode.clone_into(&mut report.mode);
    serde_json::to_vec(&report).map_err(|error| failed(&error))
}
